"""Who takes part: one file a library, each a `Peer`.

To add one, write its file and put its name in `_FILES`. A peer whose package is missing is left out
with a note that says how to install it; fanin, NumPy and memory are always there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanin.bench.peers.peer import Peer

_FILES = {
    "fanin": "own",
    "torch": "torch",
    "NumPy": "numpy",
    "JAX": "jax",
    "MKL": "mkl",
    "memory": "memory",
}
NAMES = tuple(_FILES)
CHOICES = tuple(name for name in NAMES if name != "fanin")


def load(names: Iterable[str]) -> tuple[list[Peer], list[str]]:
    """Return fanin and the peers of those names that are installed, and notes about the others."""
    wanted, peers, notes = {"fanin", *names}, [], []
    for name in NAMES:
        if name not in wanted:
            continue
        peer: Peer = importlib.import_module(f"{__name__}.{_FILES[name]}").PEER
        try:
            peer.load()
        except (ImportError, OSError) as error:
            reason = str(error).partition("\n")[0]
            notes.append(f"{name} is left out ({reason}): {peer.install}")
        else:
            peers.append(peer)
    return peers, notes
