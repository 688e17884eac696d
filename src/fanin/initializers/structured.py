"""Initializers of a matrix as a whole, and the two that only put ones in their places.

The elements are not independent, or not all of one distribution: the standard deviation is that of
an element picked at random. `identity` and `dirac` place as `eye_` and `dirac_` of `torch.nn.init`
do (Le et al. 2015 for recurrent weights; Zagoruyko and Komodakis 2017 for convolutions).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fanin import _core
from fanin.arguments import integer, nonnegative
from fanin.initializers.base import ComputedFiller, Filler, Initializer
from fanin.initializers.elementwise import ElementwiseFiller
from fanin.initializers.matrices import Matrices, matrices
from fanin.layouts import channels, is_transposed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Structured(Initializer):
    """Base of the initializers that see a weight as matrices; see `Matrices`."""

    uses_layout: ClassVar[bool] = True


@dataclass(frozen=True)
class Identity(Structured):
    """`gain` where row and column have the same number, 0 elsewhere."""

    gain: float = 1.0

    text_name: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        self._set(gain=nonnegative("gain", self.gain))

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        matrix = _without_kernel(shape, layout)
        return self.gain * _std_of_ones(matrix, min(matrix.rows, matrix.columns))

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        check_gain(self.gain, dtype)
        return _IdentityFiller(shape, _without_kernel(shape, layout), self.gain, dtype)


@dataclass(frozen=True)
class Dirac(Structured):
    """1 where a channel of the input goes to the output of its number, in the middle of the kernel.

    Parameters
    ----------
    groups : int
        Groups of a grouped convolution; each passes its own inputs on. What `fill` says of groups
        counts where this is 1.
    """

    groups: int = 1

    text_name: ClassVar[str] = "dirac"

    def __post_init__(self) -> None:
        self._set(groups=integer("groups", self.groups, low=1))

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        filler = self._filler(shape, layout, groups, "float64")
        return _std_of_ones(filler.matrix, filler.groups * min(filler.inputs, filler.outputs))

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> _DiracFiller:
        matrix = kernel("dirac", shape, layout)
        if 1 not in (groups, self.groups) and groups != self.groups:
            raise ValueError(f"groups={groups} contradicts {self}")
        groups = max(groups, self.groups)
        inputs, outputs, _ = channels(shape, matrix.layout, groups)
        return _DiracFiller(shape, matrix, 1.0, dtype, groups, inputs, outputs)


def kernel(name: str, shape: tuple[int, ...], layout: str | None) -> Matrices:
    """The matrices of a convolution; ValueError unless it has 1 to 3 kernel axes."""
    matrix = matrices(shape, layout)
    if not 1 <= len(matrix.axes("k")) <= 3:
        raise ValueError(
            f"{name} needs a convolution with 1 to 3 kernel axes (k), got shape {shape} with"
            f" layout {matrix.layout!r}"
        )
    return matrix


def check_gain(gain: float, dtype: str) -> None:
    """Raise ValueError if the dtype's computing type cannot hold the gain."""
    try:
        _core.Sampler.constant(gain, dtype)
    except ValueError as error:
        raise ValueError(str(error).replace("value", "gain", 1)) from None


def fill_constant(array: NDArray[Any], value: float, dtype: str, threads: int) -> None:
    """Fill an array with a value, rounded to its dtype."""
    sampler = _core.Sampler.constant(value, dtype)
    ElementwiseFiller(sampler, array.shape).fill(array, 0, (0,) * array.ndim, threads)


@dataclass(frozen=True)
class _OnesFiller(ComputedFiller):
    """A value at some indices of each matrix of the batch, 0 elsewhere."""

    matrix: Matrices
    value: float
    dtype: str

    @abstractmethod
    def indices(self) -> dict[int, NDArray[np.intp]]:
        """Where the value lies: an array of indices for each axis but the batch."""

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        import numpy as np

        fill_constant(array, 0.0, self.dtype, threads)
        value = np.empty((), array.dtype)
        fill_constant(value, self.value, self.dtype, 1)
        indices = {axis: index - start[axis] for axis, index in self.indices().items()}
        inside = np.logical_and.reduce(
            [(index >= 0) & (index < array.shape[axis]) for axis, index in indices.items()]
        )
        batch = self.matrix.batch_axes
        places = [index[inside] for index in indices.values()]
        array.transpose((*indices, *batch))[tuple(places)] = value


@dataclass(frozen=True)
class _IdentityFiller(_OnesFiller):
    def indices(self) -> dict[int, NDArray[np.intp]]:
        import numpy as np

        diagonal = np.arange(min(self.matrix.rows, self.matrix.columns))
        return _split(self.matrix, "o", diagonal) | _split(self.matrix, "i", diagonal)


@dataclass(frozen=True)
class _DiracFiller(_OnesFiller):
    groups: int
    inputs: int  # of a group
    outputs: int  # of a group

    def indices(self) -> dict[int, NDArray[np.intp]]:
        import numpy as np

        group, channel = np.indices((self.groups, min(self.inputs, self.outputs))).reshape(2, -1)
        first = {"i": group * self.inputs, "o": group * self.outputs}
        # Along the other axis all groups have the same numbers.
        first["o" if is_transposed(self.matrix.layout) else "i"] = np.zeros_like(group)
        middle = {
            axis: np.full_like(channel, self.matrix.shape[axis] // 2)
            for axis in self.matrix.axes("k")
        }
        return (
            _split(self.matrix, "o", first["o"] + channel)
            | _split(self.matrix, "i", first["i"] + channel)
            | middle
        )


def _without_kernel(shape: tuple[int, ...], layout: str | None) -> Matrices:
    matrix = matrices(shape, layout)
    if matrix.axes("k"):
        raise ValueError(
            f"identity needs a matrix, got shape {shape} with layout {matrix.layout!r}:"
            " for a convolution (k), use dirac"
        )
    return matrix


def _split(matrix: Matrices, letter: str, numbers: NDArray[np.intp]) -> dict[int, NDArray[np.intp]]:
    """Index on each axis of one letter, from row-major numbers over all of them."""
    import numpy as np

    axes = matrix.axes(letter)
    if not axes or not numbers.size:
        return dict.fromkeys(axes, numbers)
    sizes = [matrix.shape[axis] for axis in axes]
    return dict(zip(axes, np.unravel_index(numbers, sizes), strict=True))


def _std_of_ones(matrix: Matrices, ones: int) -> float:
    """Standard deviation of an element, if each matrix has so many ones among its zeros."""
    size = matrix.rows * matrix.columns
    return math.sqrt(ones / size * (1.0 - ones / size)) if size else 0.0
