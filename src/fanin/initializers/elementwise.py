"""Initializers whose elements are independent and all have one distribution.

Such an initializer is a distribution, or a rule that chooses one from the fans of the weight. The
core samples its elements in any order, so a region costs its share however it is cut.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fanin import _core
from fanin.arguments import Shape
from fanin.initializers.base import Filler, Initializer

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Elementwise(Initializer):
    """Base of the initializers that are, or choose, one distribution for all elements."""

    uses_layout: ClassVar[bool] = False

    def resolve(self, shape: Shape, layout: str | None = None, groups: int = 1) -> Distribution:
        """The distribution that this initializer is for a matrix of that global shape."""
        with _core.IeeeEnvironment():
            return self._resolve(shape, layout, groups)

    @abstractmethod
    def _resolve(self, shape: Shape, layout: str | None, groups: int) -> Distribution:
        """What `resolve` returns; called in an `IeeeEnvironment`."""

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        return self._resolve(shape, layout, groups)._std()

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        return ElementwiseFiller(self._resolve(shape, layout, groups)._sampler(dtype), shape)


@dataclass(frozen=True)
class Distribution(Elementwise):
    """Base of the initializers with concrete numbers: they are the same for every shape."""

    def _resolve(self, shape: Shape, layout: str | None, groups: int) -> Distribution:
        return self

    @abstractmethod
    def _std(self) -> float:
        """The standard deviation; called in an `IeeeEnvironment`."""

    @abstractmethod
    def _sampler(self, dtype: str) -> _core.Sampler:
        """The core's sampler for that dtype; called in an `IeeeEnvironment`."""


@dataclass(frozen=True)
class ElementwiseFiller(Filler):
    """The core's sampler for a matrix of that shape."""

    sampler: _core.Sampler
    shape: tuple[int, ...]

    @property
    def draws(self) -> int:
        return self.sampler.draws(math.prod(self.shape))

    @property
    def cheap_axes(self) -> tuple[int, ...]:
        return tuple(range(len(self.shape)))

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        _core.fill(self.sampler, position, array, self.shape, start, threads)
