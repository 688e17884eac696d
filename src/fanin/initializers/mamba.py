"""What state-space layers start from: Gu and Dao, "Mamba" (2023), section 3.6.

Two parameters mean something by themselves, and no rule for weights fits them. `A_log` is the
logarithm of the decay of each state, which is 1, 2, 3 ... (S4D-real, Gu et al. 2022). The bias of
the time steps is where softplus gives steps that are uniform on a logarithmic scale. Logarithms and
exponentials are the core's own, in float64, rounded once to float32 and on from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fanin import _core
from fanin.arguments import number
from fanin.initializers.base import ComputedFiller, Filler, Initializer
from fanin.initializers.elementwise import Distribution
from fanin.initializers.structured import fill_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_STEP, LARGEST_STEP = 1e-30, 1e30


@dataclass(frozen=True)
class MambaALog(Initializer):
    """ln(1), ln(2), ln(3) ... along the last axis, the same in every row."""

    text_name: ClassVar[str] = "mamba_a_log"
    uses_layout: ClassVar[bool] = False

    def _standard_deviation(self, shape: tuple[int, ...], layout: str | None, groups: int) -> float:
        if not math.prod(shape):
            return 0.0
        values = [_core.logarithm(float(1 + index)) for index in range(_columns(shape))]
        mean = math.fsum(values) / len(values)
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))

    def _filler(
        self, shape: tuple[int, ...], layout: str | None, groups: int, dtype: str
    ) -> Filler:
        return _ALogFiller(shape, dtype)


@dataclass(frozen=True)
class MambaDtBias(Distribution):
    """Inverse softplus of time steps that are log-uniform in [low, high], none below `floor`.

    Parameters
    ----------
    low, high : float
        The ends of the time steps, from 1e-30 to 1e30.
    floor : float
        Shorter steps are made this long.
    """

    low: float = 0.001
    high: float = 0.1
    floor: float = 1e-4

    text_name: ClassVar[str] = "mamba_dt_bias"

    def __post_init__(self) -> None:
        self._set(
            low=_step("low", self.low, SMALLEST_STEP),
            high=_step("high", self.high, SMALLEST_STEP),
            floor=_step("floor", self.floor, 0.0),
        )
        if self.low > self.high:
            raise ValueError(
                f"low must not be above high, got low={self.low!r}, high={self.high!r}"
            )

    def mean(self) -> float:
        """Return the exact mean of an element, in float64."""
        return _core.time_step_bias_moments(self.low, self.high, self.floor)[0]

    def _std(self) -> float:
        return _core.time_step_bias_moments(self.low, self.high, self.floor)[1]

    def _sampler(self, dtype: str) -> _core.Sampler:
        return _core.Sampler.time_step_bias(self.low, self.high, self.floor, dtype)


@dataclass(frozen=True)
class _ALogFiller(ComputedFiller):
    dtype: str

    def fill(
        self, array: NDArray[Any], position: int, start: tuple[int, ...], threads: int
    ) -> None:
        import numpy as np

        row = np.empty(_columns(array.shape), array.dtype)
        first = start[-1] if start else 0
        for index in range(len(row)):
            value = _core.logarithm(float(1 + first + index))
            fill_constant(row[index : index + 1], value, self.dtype, 1)
        array[...] = row.reshape(array.shape[-1:])


def _columns(shape: tuple[int, ...]) -> int:
    return shape[-1] if shape else 1


def _step(name: str, value: Any, low: float) -> float:
    step = number(name, value)
    if not low <= step <= LARGEST_STEP:
        raise ValueError(f"{name} must be from {low:g} to {LARGEST_STEP:g}, got {step!r}")
    return step
