"""Writes, or compares, the tensors that hold a matrix made as a whole, such as an orthogonal one.

The core samples any element by itself, in small chunks. Here a tensor is made in few large
bands instead, each into a reused buffer and from there to its places in the file. Bands are cut
along an axis that costs no more in parts, so that memory stays bounded and the work nearly what it
is for the whole.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import add
from typing import TYPE_CHECKING, Any, TypeAlias

from fanin.boxes import boxes
from fanin.output import itemsize, numpy_dtype
from fanin.plan.joined_parts import fill_parts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fanin.initializers.base import Filler
    from fanin.model import Tensor

__all__ = ["BandedTensor", "Box", "compare_banded", "write_banded"]

BAND_BYTES = 2**26

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""First index and extent in a tensor, axis by axis."""


@dataclass(frozen=True)
class BandedTensor:
    """A tensor with what fills each of its parts, and where it lies in the file."""

    offset: int  # bytes
    dtype: str
    tensor: Tensor
    fillers: tuple[Filler, ...]
    positions: tuple[int, ...]  # of the parts' matrices in the stream

    @property
    def num_bytes(self) -> int:
        """Size of the tensor's data."""
        return self.tensor.numel * itemsize(self.dtype)


def write_banded(
    descriptor: int,
    tensors: Sequence[BandedTensor],
    threads: int,
    progress: Callable[[int], object],
) -> None:
    """Write the tensors; `progress` is called with the bytes written so far."""
    done = 0
    for banded in tensors:
        for band, start in _bands(banded, _whole(banded), threads):
            for place, content in _runs(banded, band, start):
                _write_all(descriptor, content.data, banded.offset + place)
            done += band.nbytes
            progress(done)


def compare_banded(
    descriptor: int, banded: BandedTensor, threads: int, box: Box | None = None
) -> tuple[int, bytes, bytes] | None:
    """Compare a tensor, or a box of it, with the file.

    Returns
    -------
    tuple of int, bytes, bytes, or None
        The row-major number in the tensor of the first element whose bits differ, with the bytes
        in the file and those that belong there.

    Raises
    ------
    EOFError
        The file ends before the tensor does.
    """
    item = itemsize(banded.dtype)
    first: tuple[int, bytes, bytes] | None = None
    for band, start in _bands(banded, box or _whole(banded), threads):
        for place, content in _runs(banded, band, start):
            if first is not None and place // item >= first[0]:
                break  # the runs of a band ascend
            found = _read_all(descriptor, content.nbytes, banded.offset + place)
            different = (found != content).reshape(-1, item).any(axis=1)
            if different.any():
                at = int(different.argmax())
                element = slice(at * item, (at + 1) * item)
                first = place // item + at, found[element].tobytes(), content[element].tobytes()
    return first


def _whole(banded: BandedTensor) -> Box:
    return (0,) * len(banded.tensor.shape), banded.tensor.shape


def _bands(
    banded: BandedTensor, box: Box, threads: int
) -> Iterator[tuple[NDArray[Any], tuple[int, ...]]]:
    """Yield bands that cover a box once, with their place; all in the same memory."""
    import numpy as np

    first, shape = box
    item = itemsize(banded.dtype)
    buffer = np.empty(0, np.uint8)
    for begin, extent in boxes(shape, BAND_BYTES // item, _cut_order(banded)):
        size = item * math.prod(extent)
        if buffer.nbytes < size:
            buffer = np.empty(size, np.uint8)
        band = buffer[:size].view(numpy_dtype(banded.dtype)).reshape(extent)
        start = tuple(map(add, first, begin))
        _fill(banded, band, start, threads)
        yield band, start


def _cut_order(banded: BandedTensor) -> list[int]:
    """Axes in the order to cut them: those first where the parts cost the least more."""
    axes = range(len(banded.tensor.shape))

    def cost(axis: int) -> tuple[int, int]:
        """Elements that each band would make again; then, where the parts would have it cut."""
        pairs = list(zip(banded.tensor.parts, banded.fillers, strict=True))
        dear = sum(part.numel for part, filler in pairs if axis not in filler.cheap_axes)
        ranks = [f.cheap_axes.index(axis) for _, f in pairs if axis in f.cheap_axes]
        return dear, max(ranks, default=0)

    return sorted(axes, key=cost)


def _fill(banded: BandedTensor, band: NDArray[Any], start: tuple[int, ...], threads: int) -> None:
    """Fill a band that begins at an index of the tensor."""
    from fanin.initializers.elementwise import ElementwiseFiller

    def fill(number: int, array: NDArray[Any], region: tuple[slice, ...]) -> None:
        first = tuple(span.start for span in region)
        banded.fillers[number].fill(array, banded.positions[number], first, threads)

    box = tuple(slice(a, a + size) for a, size in zip(start, band.shape, strict=True))
    as_a_whole = [not isinstance(filler, ElementwiseFiller) for filler in banded.fillers]
    fill_parts(band, box, banded.tensor.parts, as_a_whole, banded.dtype, fill)


def _runs(
    banded: BandedTensor, band: NDArray[Any], start: tuple[int, ...]
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield the runs of a band that are contiguous in the file, as bytes, each with its place."""
    import numpy as np

    shape = banded.tensor.shape
    # The innermost axis that the band cuts; runs begin with its indices.
    cut = max((axis for axis in range(len(shape)) if band.shape[axis] < shape[axis]), default=0)
    strides = [band.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    for outer in product(*map(range, band.shape[:cut])):
        index = (*outer, *(0,) * (len(shape) - cut))
        place = sum((a + b) * c for a, b, c in zip(start, index, strides, strict=True))
        yield place, band[outer].reshape(-1).view(np.uint8)


def _write_all(descriptor: int, content: memoryview, offset: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, offset)
        content, offset = content[written:], offset + written


def _read_all(descriptor: int, size: int, offset: int) -> NDArray[np.uint8]:
    import numpy as np

    content = np.empty(size, np.uint8)
    done = 0
    while done < size:
        got = os.preadv(descriptor, [content[done:].data], offset + done)
        if got == 0:
            raise EOFError
        done += got
    return content
