"""Where a matrix starts on the generator's cycle: `position(seed, name)`.

Every logical matrix is an interval of the one cycle of xorshift64* (period 2**64 - 1). A keyed hash
of its name puts the start there, so that a matrix keeps its values when others are added, renamed
or drawn in another order, and no state is kept anywhere. BLAKE2b because it is keyed, personalised
and in Python's standard library (RFC 7693).
"""

from __future__ import annotations

from hashlib import blake2b

from fanin.arguments import integer

__all__ = ["STREAM_VERSION", "position"]

STREAM_VERSION = 1
"""Version of the stream. Two builds with the same version give the same bits."""

PERIOD = 2**64 - 1
"""Length of the generator's cycle, in draws."""


def position(seed: int, name: str) -> int:
    """Start of the matrix `name` on the generator's cycle, in draws.

    Parameters
    ----------
    seed : int
        From 0 to 2**64 - 1.
    name : str
        Name of the logical matrix. Different matrices need different names.

    Returns
    -------
    int
        From 0 to 2**64 - 2. Draw `d` of the matrix is draw `position + d` of the cycle.

    Examples
    --------
    >>> import fanin
    >>> hex(fanin.position(0, "w"))
    '0x75628194b0561306'
    """
    key = check_seed(seed).to_bytes(8, "little")
    digest = blake2b(encode_name(name), digest_size=8, key=key, person=b"fanin").digest()
    return int.from_bytes(digest, "little") % PERIOD


def check_seed(seed: int) -> int:
    """Return `seed` as an int; TypeError or ValueError unless it is one in [0, 2**64)."""
    return integer("seed", seed, low=0, high=2**64 - 1)


def encode_name(name: str) -> bytes:
    """Return `name` as UTF-8; TypeError unless it is a str, ValueError for lone surrogates."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"name must be valid Unicode, got {name!r}") from None
