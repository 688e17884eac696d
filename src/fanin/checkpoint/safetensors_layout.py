"""Where every tensor lies: how a plan is cut into files, and the safetensors header of each.

The cut is greedy in the order of the plan, as huggingface_hub cuts a state dict: a tensor that
does not fit begins the next file, and one larger than the limit has a file of its own. Within a
file the tensors lie by dtype, wider first, then by name, as the safetensors library orders them,
so that every tensor is aligned. The library's own writer orders the metadata at random; here a
header is a function of the plan alone, and two runs of one recipe give the same bytes.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanin.checkpoint.safetensors_header import MAX_HEADER_BYTES

if TYPE_CHECKING:
    from fanin.plan import Entry

DEFAULT_MAX_SHARD_SIZE = "5GB"

# In the order in which they lie in a file.
DTYPE_CODES = {
    "int64": "I64",
    "float64": "F64",
    "float32": "F32",
    "int32": "I32",
    "bfloat16": "BF16",
    "float16": "F16",
    "int16": "I16",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_RANK = {dtype: rank for rank, dtype in enumerate(DTYPE_CODES)}
_SIZE = r"\s*(\d{1,40}(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*"
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000**k for k, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}IB": 1024**k for k, prefix in enumerate("KMGT", start=1)},
}


@dataclass(frozen=True)
class Shard:
    """One file: its tensors in the order of its bytes, and the header before them."""

    filename: str
    entries: tuple[Entry, ...]
    offsets: tuple[int, ...]  # bytes from the beginning of the file, one an entry
    header: bytes  # with its length before it and its padding
    num_bytes: int  # of the whole file


def layout(
    entries: Sequence[Entry], metadata: dict[str, str], max_shard_size: int | str
) -> tuple[Shard, ...]:
    """Cut the tensors into files of at most `max_shard_size` bytes of data and lay them out."""
    _check_names([entry.tensor.name for entry in entries])
    groups = _cut(entries, parse_size(max_shard_size))
    if len(groups) == 1:
        return (shard_of("model.safetensors", groups[0], metadata),)
    return tuple(
        shard_of(f"model-{number:05d}-of-{len(groups):05d}.safetensors", group, metadata)
        for number, group in enumerate(groups, start=1)
    )


def shard_of(filename: str, entries: Sequence[Entry], metadata: dict[str, str]) -> Shard:
    """Lay out one file."""
    ordered = sorted(entries, key=lambda entry: (_RANK[entry.dtype], entry.tensor.name))
    content: dict[str, Any] = {"__metadata__": metadata}
    begins = []
    end = 0
    for entry in ordered:
        begin, end = end, end + entry.num_bytes
        begins.append(begin)
        content[entry.tensor.name] = {
            "dtype": DTYPE_CODES[entry.dtype],
            "shape": list(entry.tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(
            f"the header of {filename} has {len(text)} bytes and readers refuse more than "
            f"{MAX_HEADER_BYTES}; choose a smaller max_shard_size"
        )
    header = len(text).to_bytes(8, "little") + text
    offsets = tuple(len(header) + begin for begin in begins)
    return Shard(filename, tuple(ordered), offsets, header, len(header) + end)


def index(shards: Sequence[Shard], num_parameters: int) -> bytes:
    """Return the text of `model.safetensors.index.json`."""
    names = {entry.tensor.name: shard.filename for shard in shards for entry in shard.entries}
    total = sum(entry.num_bytes for shard in shards for entry in shard.entries)
    content = {
        "metadata": {"total_parameters": num_parameters, "total_size": total},
        "weight_map": names,
    }
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def parse_size(size: int | str) -> int:
    """Return a size in bytes.

    Parameters
    ----------
    size : int or str
        Bytes, or a number with a unit: KB MB GB TB are powers of 1000, KiB MiB GiB TiB of 1024.

    Returns
    -------
    int
        Bytes, at least 1.

    Raises
    ------
    ValueError
        If the text is not a size, or the size is less than a byte.

    Examples
    --------
    >>> parse_size("5GB"), parse_size("1.5 KiB"), parse_size(4096)
    (5000000000, 1536, 4096)
    """
    match = re.fullmatch(_SIZE, str(size), re.ASCII | re.I)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(
            f"size {size!r} is not a number of bytes with a unit such as '500MB' or '5GB'"
        )
    unit = _UNITS[match[2].upper()]
    num_bytes = int(match[1]) * unit if match[1].isdigit() else int(float(match[1]) * unit)
    if num_bytes < 1:
        raise ValueError(f"size {size!r} is less than a byte")
    return num_bytes


def _cut(entries: Sequence[Entry], limit: int) -> list[list[Entry]]:
    groups: list[list[Entry]] = []
    current: list[Entry] = []
    used = 0
    for entry in entries:
        num_bytes = entry.num_bytes
        if num_bytes > limit:
            groups.append([entry])
            continue
        if used + num_bytes > limit:
            groups.append(current)
            current, used = [], 0
        current.append(entry)
        used += num_bytes
    if current:
        groups.append(current)
    return groups


def _check_names(names: Sequence[str]) -> None:
    # Tools that unpack a checkpoint make paths of tensor names; none may lead out of the folder.
    seen: set[str] = set()
    for name in names:
        if not name.isprintable() or not name or name == "__metadata__":
            raise ValueError(f"{name!r} cannot be the name of a tensor")
        if name.startswith(("/", "~")) or ".." in re.split(r"[/\\]", name):
            raise ValueError(f"tensor name {name!r} reads as a path that leaves the folder")
        if name in seen:
            raise ValueError(f"two tensors are named {name!r}")
        seen.add(name)
