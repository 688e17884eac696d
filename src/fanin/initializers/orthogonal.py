"""Orthogonal matrices, uniform among all of them (Haar): Saxe et al. (2014).

In law the Q of the QR decomposition of a Gaussian matrix, with R's diagonal positive; sampled as a
product of random reflectors, without a decomposition (Stewart 1980). The vectors along the shorter
side of a matrix are orthonormal, times the gain. `delta_orthogonal` puts such a matrix in the
middle of a convolution's kernel, which then keeps the norm of its input (Xiao et al. 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fanin import _core
from fanin.arguments import nonnegative
from fanin.initializers.base import Filler
from fanin.initializers.matrices import Matrices, matrices
from fanin.initializers.structured import Structured, check_gain, fill_constant, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Orthogonal(Structured):
    """Orthonormal rows (or columns, where there are more rows), times `gain`."""

    gain: float = 1.0

    text_name: ClassVar[str] = "orthogonal"

    def __post_init__(self) -> None:
        self._set(gain=nonnegative("gain", self.gain))

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        matrix = matrices(shape, layout)
        return self.gain / math.sqrt(max(matrix.rows, matrix.columns, 1))

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        check_gain(self.gain, dtype)
        return OrthogonalFiller(matrices(shape, layout), self.gain, dtype)


@dataclass(frozen=True)
class DeltaOrthogonal(Structured):
    """A convolution of zeros but for the middle tap, an orthogonal matrix times `gain`."""

    gain: float = 1.0

    text_name: ClassVar[str] = "delta_orthogonal"

    def __post_init__(self) -> None:
        self._set(gain=nonnegative("gain", self.gain))

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        matrix = self._kernel(shape, layout)
        return self.gain / math.sqrt(max(matrix.rows * matrix.size(matrix.axes("k")), 1))

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        check_gain(self.gain, dtype)
        return _DeltaFiller(self._kernel(shape, layout), self.gain, dtype)

    def _kernel(self, shape: tuple[int, ...], layout: str | None) -> Matrices:
        matrix = kernel("delta_orthogonal", shape, layout)
        inputs = matrix.size(matrix.axes("i"))
        if matrix.rows < inputs:
            raise ValueError(
                f"delta_orthogonal keeps the norm of its input only with as many outputs as inputs,"
                f" or more; got {matrix.rows} outputs and {inputs} inputs: shape {shape}, layout"
                f" {matrix.layout!r}"
            )
        return matrix


@dataclass(frozen=True)
class OrthogonalFiller(Filler):
    """Calls the core, which knows vectors along the short side and their components."""

    matrix: Matrices
    gain: float
    dtype: str

    @property
    def draws(self) -> int:
        if self.gain == 0.0:
            return 0
        normal = _core.Sampler.normal(0.0, 1.0, self.dtype)
        return normal.draws(self.matrix.batch * self.matrix.rows * self.matrix.columns)

    @property
    def cheap_axes(self) -> tuple[int, ...]:
        return (*self.matrix.batch_axes, *self._sides[0])

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        if self.gain == 0.0:
            fill_constant(array, 0.0, self.dtype, threads)
            return
        short, long = self._sides
        batch, vectors, components = (
            (
                self.matrix.numbers(axes, start, array.shape),
                self.matrix.offsets(axes, array),
            )
            for axes in (self.matrix.batch_axes, short, long)
        )
        _core.fill_orthogonal(
            position,
            self.matrix.size(short),
            self.matrix.size(long),
            self.gain,
            self.dtype,
            batch,
            vectors,
            components,
            array.__array_interface__["data"][0],
            threads,
        )

    @property
    def _sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Axes along the short and along the long side."""
        rows, columns = self.matrix.row_axes, self.matrix.column_axes
        return (rows, columns) if self.matrix.rows <= self.matrix.columns else (columns, rows)


@dataclass(frozen=True)
class _DeltaFiller(Filler):
    matrix: Matrices
    gain: float
    dtype: str

    @property
    def draws(self) -> int:
        return self._tap.draws

    @property
    def cheap_axes(self) -> tuple[int, ...]:
        rest = [axis for axis, letter in enumerate(self.matrix.layout) if letter != "k"]
        return (*self.matrix.axes("k"), *(rest[axis] for axis in self._tap.cheap_axes))

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        fill_constant(array, 0.0, self.dtype, threads)
        taps = {
            axis: (self.matrix.shape[axis] - 1) // 2 - start[axis] for axis in self.matrix.axes("k")
        }
        if not all(0 <= tap < array.shape[axis] for axis, tap in taps.items()):
            return
        middle = array[tuple(taps.get(axis, slice(None)) for axis in range(array.ndim))]
        rest = tuple(first for axis, first in enumerate(start) if axis not in taps)
        self._tap.fill(middle, position, rest, threads)

    @property
    def _tap(self) -> OrthogonalFiller:
        """What fills the middle tap."""
        kept = [axis for axis, letter in enumerate(self.matrix.layout) if letter != "k"]
        shape = tuple(self.matrix.shape[axis] for axis in kept)
        layout = "".join(self.matrix.layout[axis] for axis in kept)
        return OrthogonalFiller(matrices(shape, layout), self.gain, self.dtype)
