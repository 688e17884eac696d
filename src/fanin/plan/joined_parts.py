"""Fills the parts of a tensor, and makes in one piece what follows each other in a matrix.

A part of a matrix that is made as a whole, such as an orthogonal one, may cost nearly what the
whole costs, and some tensors hold a matrix in many bands: DeepSeek's keys and values take turns, a
head at a time. Such bands are made together in a buffer, and copied to their places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fanin.model import Part
from fanin.output import announce_write, itemsize, view

__all__ = ["fill_parts"]

JOINED_BYTES = 2**26
"""Size of the buffer, at most."""

Region = tuple[slice, ...]


def fill_parts(
    out: Any,
    box: Region,
    parts: Sequence[Part],
    as_a_whole: Sequence[bool],
    dtype: str,
    fill: Callable[[int, Any, Region], object],
) -> None:
    """Fill what of the parts lies in a box of their tensor.

    Parameters
    ----------
    out : array
        NumPy array or torch CPU tensor with the shape of the box.
    box : tuple of slice
        Start and stop in the tensor, axis by axis.
    parts : sequence of Part
        Of the tensor.
    as_a_whole : sequence of bool
        For each part, whether its initializer makes the matrix as a whole.
    dtype : str
        Of `out`.
    fill : callable
        `fill(number, array, region)` fills an array with a region of the matrix that the part of
        that number belongs to.
    """
    runs: list[_Run] = []
    latest: dict[str, _Run] = {}  # of the matrices that are made as a whole
    limit = JOINED_BYTES // itemsize(dtype)
    for number, part in enumerate(parts):
        inside = part.within(box)
        if inside is None:
            continue
        last = latest.get(part.name)
        if as_a_whole[number] and last is not None and last.extend(*inside, limit):
            continue
        runs.append(_Run(number, inside[0], [inside]))
        if as_a_whole[number]:
            latest[part.name] = runs[-1]
    for run in runs:
        run.fill(out, fill)


@dataclass
class _Run:
    """A region of a matrix, and the pieces of it that lie at places of their own."""

    number: int  # of the first piece's part
    region: Region
    pieces: list[tuple[Region, Region]]  # region of the matrix, places in the box

    def extend(self, region: Region, places: Region, limit: int) -> bool:
        """Take a piece in, if it follows those here and not too many elements come together."""
        differing = [
            axis
            for axis, (one, other) in enumerate(zip(self.region, region, strict=True))
            if one != other
        ]
        if len(differing) != 1:
            return False
        (axis,) = differing
        if self.region[axis].stop != region[axis].start:
            return False
        whole = list(self.region)
        whole[axis] = slice(whole[axis].start, region[axis].stop)
        if math.prod(_extent(tuple(whole))) > limit:
            return False
        self.region = tuple(whole)
        self.pieces.append((region, places))
        return True

    def fill(self, out: Any, fill: Callable[[int, Any, Region], object]) -> None:
        """Fill the pieces, through a buffer if there are several."""
        if len(self.pieces) == 1:
            places = self.pieces[0][1]
            fill(self.number, out[(*places, ...)], self.region)  # an array also without axes
            return
        import numpy as np

        array, _ = view(out)
        buffer = np.empty(_extent(self.region), array.dtype)
        fill(self.number, buffer, self.region)
        announce_write(out)
        for region, places in self.pieces:
            pairs = zip(region, self.region, strict=True)
            array[places] = buffer[
                tuple(slice(a.start - b.start, a.stop - b.start) for a, b in pairs)
            ]


def _extent(region: Region) -> tuple[int, ...]:
    return tuple(span.stop - span.start for span in region)
