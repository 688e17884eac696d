"""Boxes: an array cut into parts that fit a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

__all__ = ["boxes"]


def boxes(
    shape: tuple[int, ...], limit: int, order: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield start and extent of boxes that cover an array once, of at most `limit` elements each.

    Axes are cut in the `order` given, the next one only where a single index of those before still
    has more elements than `limit`. A single element is never cut.

    Examples
    --------
    >>> list(boxes((4, 3), 6, [0, 1]))
    [((0, 0), (2, 3)), ((2, 0), (2, 3))]
    >>> list(boxes((4, 3), 8, [1, 0]))
    [((0, 0), (4, 2)), ((0, 2), (4, 1))]
    """
    size = 1
    for length in shape:
        size *= length
    if size == 0:
        return
    extent = list(shape)
    for axis in order:
        if size <= limit:
            break
        size //= extent[axis]
        extent[axis] = max(1, min(extent[axis], limit // size))
        size *= extent[axis]
    for start in product(*map(range, [0] * len(shape), shape, extent)):
        rest = (length - first for length, first in zip(shape, start, strict=True))
        yield start, tuple(map(min, extent, rest))
