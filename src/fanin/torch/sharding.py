"""Which elements of a DTensor this process holds: boxes of the global tensor, and of the local one.

A shard is a product of index intervals, one list an axis. Most have one interval; a strided shard,
which FSDP2 over tensor parallelism makes, has as many as there were tensor-parallel shards, and
uneven sizes cut them short. Computed from the placements alone, with no communication and no list
of indices. Placements are applied from left to right, each to what the ones before it left, and cut
as `torch.chunk` cuts: pieces of ceil(n / count), the last ones shorter or empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, product
from typing import Any

import torch

__all__ = ["Box", "boxes_of", "is_sharded", "local_boxes"]

Box = tuple[tuple[slice, ...], tuple[slice, ...]]
"""Where elements lie in the global tensor, and in the local one."""

Intervals = list[range]


def is_sharded(tensor: torch.Tensor) -> bool:
    """True for a DTensor."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def local_boxes(tensor: Any) -> list[Box]:
    """Return the boxes of a tensor that this process holds; of a plain tensor, the whole.

    Raises
    ------
    ValueError
        A placement without a value of its own for each element (`Partial`), or of an unknown kind.
    """
    shape = tuple(tensor.shape)
    if not is_sharded(tensor):
        return boxes_of(shape, (), (), ())
    mesh, placements = tensor.device_mesh, tensor.placements
    for placement in placements:
        if type(placement).__name__ not in ("Replicate", "Shard", "_StridedShard"):
            raise ValueError(
                f"its placement is {placement}, but each process must hold elements of the tensor"
                " itself (Shard, Replicate), not terms of a pending sum"
            )
    coordinate = mesh.get_coordinate()
    if coordinate is None:  # this process is not in the mesh
        return []
    found = boxes_of(shape, tuple(mesh.shape), tuple(coordinate), placements)
    ours = [
        max((places[axis].stop for _, places in found), default=0) for axis in range(len(shape))
    ]
    with torch.no_grad():
        theirs = tensor.to_local().shape
    if found and tuple(theirs) != tuple(ours):
        raise ValueError(
            f"the shard has shape {tuple(theirs)}, but its placements {placements} on a mesh of"
            f" {tuple(mesh.shape)} make {tuple(ours)}"
        )
    return found


def boxes_of(
    shape: tuple[int, ...],
    mesh: tuple[int, ...],
    coordinate: tuple[int, ...],
    placements: Sequence[Any],
) -> list[Box]:
    """Return the boxes at a coordinate of a mesh.

    Examples
    --------
    >>> from torch.distributed.tensor import Shard
    >>> boxes_of((5, 2), (2,), (1,), [Shard(0)])
    [((slice(3, 5, None), slice(0, 2, None)), (slice(0, 2, None), slice(0, 2, None)))]
    """
    axes: list[Intervals] = [[range(size)] for size in shape]
    for count, index, placement in zip(mesh, coordinate, placements, strict=True):
        if type(placement).__name__ == "Replicate":
            continue
        axis = placement.dim % len(shape)
        pieces = getattr(placement, "split_factor", 1)
        axes[axis] = [
            interval
            for piece in range(pieces)
            for interval in _chunk(_chunk(axes[axis], pieces, piece), count, index)
        ]
    if not all(any(map(len, intervals)) for intervals in axes):
        return []
    return [
        (tuple(span for span, _ in pairs), tuple(place for _, place in pairs))
        for pairs in product(*map(_places, axes))
    ]


def _chunk(intervals: Intervals, count: int, index: int) -> Intervals:
    """Return piece `index` of `count` of the concatenated intervals."""
    size = -(-sum(map(len, intervals)) // count)
    low, high = size * index, size * (index + 1)
    ends = accumulate(map(len, intervals))
    pieces = (
        interval[max(0, low - (end - len(interval))) : max(0, high - (end - len(interval)))]
        for interval, end in zip(intervals, ends, strict=True)
    )
    return [piece for piece in pieces if piece]


def _places(intervals: Intervals) -> list[tuple[slice, slice]]:
    """Each interval with its place in the local axis; neighbours that touch become one."""
    merged: Intervals = []
    for interval in intervals:
        if merged and merged[-1].stop == interval.start:
            merged[-1] = range(merged[-1].start, interval.stop)
        else:
            merged.append(interval)
    ends = accumulate(map(len, merged))
    return [
        (slice(interval.start, interval.stop), slice(end - len(interval), end))
        for interval, end in zip(merged, ends, strict=True)
    ]
