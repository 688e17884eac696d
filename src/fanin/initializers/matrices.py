"""A weight seen as matrices: which axes are rows and which are columns.

Rows are the outputs (`o`), columns everything else but the batch (`b`), each in the order in which
their axes appear: for a layer of torch the first axis by the rest, as its own initializers see it.
Each index of the batch is a matrix of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from fanin.layouts import resolve_layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Matrices:
    """The axes of a shape by their part in it."""

    shape: tuple[int, ...]
    layout: str

    @cached_property
    def batch_axes(self) -> tuple[int, ...]:
        """Axes of independent matrices."""
        return self.axes("b")

    @cached_property
    def row_axes(self) -> tuple[int, ...]:
        """Axes of the outputs."""
        return self.axes("o")

    @cached_property
    def column_axes(self) -> tuple[int, ...]:
        """Axes of all else."""
        return self.axes("ik")

    @cached_property
    def batch(self) -> int:
        """Number of matrices."""
        return self.size(self.batch_axes)

    @cached_property
    def rows(self) -> int:
        """Rows of each matrix."""
        return self.size(self.row_axes)

    @cached_property
    def columns(self) -> int:
        """Columns of each matrix."""
        return self.size(self.column_axes)

    def axes(self, letters: str) -> tuple[int, ...]:
        """Axes with one of those letters, in the order in which they appear."""
        return tuple(axis for axis, letter in enumerate(self.layout) if letter in letters)

    def size(self, axes: tuple[int, ...]) -> int:
        """Number of indices over some axes."""
        return math.prod(self.shape[axis] for axis in axes)

    def numbers(
        self, axes: tuple[int, ...], start: tuple[int, ...], extent: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Row-major numbers, over `axes` of the whole shape, of the indices of a region."""
        strides = [self.size(axes[axis + 1 :]) for axis in range(len(axes))]
        first = sum(start[axis] * stride for axis, stride in zip(axes, strides, strict=True))
        return first + _outer_sum([extent[axis] for axis in axes], strides)

    def offsets(self, axes: tuple[int, ...], array: NDArray[Any]) -> NDArray[np.int64]:
        """Bytes from the beginning of an array to each index over some of its axes, row-major."""
        return _outer_sum(
            [array.shape[axis] for axis in axes], [array.strides[axis] for axis in axes]
        )


@lru_cache(maxsize=4096)
def matrices(shape: tuple[int, ...], layout: str | None) -> Matrices:
    """The matrices of a weight; ValueError for a vector without a layout."""
    return Matrices(shape, resolve_layout(shape, layout))


def _outer_sum(sizes: list[int], strides: list[int]) -> NDArray[np.int64]:
    """`i * strides[0] + j * strides[1] + ...` for all indices, in row-major order."""
    import numpy as np

    total = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        total = (total[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return total
