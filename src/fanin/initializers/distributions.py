"""Initializers with concrete numbers: constant, uniform, normal, truncated normal.

The truncated normal is sampled by inverting its distribution function, so it may be cut anywhere,
and its moments are those of Johnson, Kotz and Balakrishnan (1994), section 10.1.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import Field, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

from fanin import _core
from fanin.arguments import choice, finite, flag, nonnegative, number
from fanin.initializers.elementwise import Distribution

Bounds: TypeAlias = Literal["sigma", "absolute"]


@dataclass(frozen=True)
class Constant(Distribution):
    """The same value everywhere."""

    value: float

    text_name: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        value = number("value", self.value)
        if math.isnan(value):
            raise ValueError("value must be a number, got nan")
        self._set(value=value)

    def __str__(self) -> str:
        """`zeros` and `ones` go by their names."""
        return {"0.0": "zeros", "1.0": "ones"}.get(repr(self.value)) or super().__str__()

    def _std(self) -> float:
        return 0.0

    def _sampler(self, dtype: str) -> _core.Sampler:
        return _core.Sampler.constant(self.value, dtype)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on [low, high)."""

    low: float = 0.0
    high: float = 1.0

    text_name: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        self._set(low=finite("low", self.low), high=finite("high", self.high))
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low!r}, high={self.high!r}")

    def _std(self) -> float:
        return _uniform_std(self.low, self.high)

    def _sampler(self, dtype: str) -> _core.Sampler:
        return _core.Sampler.uniform(self.low, self.high, dtype)


@dataclass(frozen=True)
class Normal(Distribution):
    """Normal with that mean and standard deviation."""

    mean: float = 0.0
    std: float = 1.0

    text_name: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        self._set(mean=finite("mean", self.mean), std=nonnegative("std", self.std))

    def _std(self) -> float:
        return self.std

    def _sampler(self, dtype: str) -> _core.Sampler:
        return _core.Sampler.normal(self.mean, self.std, dtype)


@dataclass(frozen=True, init=False)
class TruncatedNormal(Distribution):
    """Normal, cut to [low, high].

    Parameters
    ----------
    mean, std : float
        Of the parent, the normal before it is cut; with `keep_std`, `std` is that of the result.
    low, high : float, optional
        May be infinite. Default: -2 and 2 in sigma; absolute bounds must both be given.
    bounds : {"sigma", "absolute"}
        Whether `low` and `high` count standard deviations of the parent from its mean, or are the
        values themselves. Absolute bounds far outside of the distribution cut nothing and warn.
    keep_std : bool
        Widen the parent so that the result has the standard deviation `std`: without it, a normal
        cut at 2 sigma has 0.88 `std`.
    """

    mean: float = 0.0
    std: float = 1.0
    low: float = -2.0
    high: float = 2.0
    bounds: Bounds = "sigma"
    keep_std: bool = False

    text_name: ClassVar[str] = "truncated_normal"

    def __init__(
        self,
        mean: float = 0.0,
        std: float = 1.0,
        low: float | None = None,
        high: float | None = None,
        bounds: Bounds = "sigma",
        keep_std: bool = False,
    ) -> None:
        choice("bounds", bounds, ("sigma", "absolute"))
        if bounds == "absolute" and (low is None or high is None):
            raise ValueError(f"absolute bounds need both low and high, got low={low}, high={high}")
        self._set(
            mean=finite("mean", mean),
            std=nonnegative("std", std),
            low=-2.0 if low is None else number("low", low),
            high=2.0 if high is None else number("high", high),
            bounds=bounds,
            keep_std=flag("keep_std", keep_std),
        )
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low!r}, high={self.high!r}")
        if bounds == "absolute":
            self._check_absolute()

    @classmethod
    def as_meant(cls, *args: Any) -> TruncatedNormal:
        """Return the value for the same arguments, without a warning of bounds that cut nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return cls(*args)

    def parent_std(self) -> float:
        """Standard deviation of the normal that is cut."""
        if not self.keep_std or self.std == 0.0:
            return self.std
        if self.bounds == "absolute":
            return _parent_std(self.std, self.low - self.mean, self.high - self.mean)
        with _core.IeeeEnvironment():
            return self.std / _truncated_std(self.low, self.high)

    def sigma_bounds(self) -> tuple[float, float]:
        """Bounds in standard deviations of the parent, which must not be 0, from the mean."""
        if self.bounds == "sigma":
            return self.low, self.high
        std = self.parent_std()
        return (self.low - self.mean) / std, (self.high - self.mean) / std

    @staticmethod
    def cuts_nothing(mean: float, std: float, low: float, high: float) -> bool:
        """True for bounds, as values, that are more than 8 standard deviations from the mean."""
        return std > 0.0 and (low - mean) / std < -8.0 and (high - mean) / std > 8.0

    def _text_omits(self, field: Field[Any]) -> bool:
        needed = self.bounds == "absolute" and field.name in ("low", "high")
        return not needed and super()._text_omits(field)

    def _std(self) -> float:
        std = self.parent_std()
        if self.keep_std or std == 0.0:
            return self.std
        return std * _truncated_std(*self.sigma_bounds())

    def _sampler(self, dtype: str) -> _core.Sampler:
        std = self.parent_std()
        if std == 0.0:
            return _core.Sampler.constant(self.mean, dtype)
        low, high = self.low, self.high
        if self.bounds == "sigma":
            low, high = self.mean + low * std, self.mean + high * std
        return _core.Sampler.truncated_normal(
            self.mean, std, *self.sigma_bounds(), low, high, dtype
        )

    def _check_absolute(self) -> None:
        interval = f"[{self.low!r}, {self.high!r}]"
        if self.std == 0.0:
            if not self.low <= self.mean <= self.high:
                raise ValueError(
                    f"std 0 needs a mean within the bounds {interval}, got {self.mean!r}"
                )
        elif self.keep_std and self.std >= (limit := _uniform_std(self.low, self.high)):
            raise ValueError(
                f"std {self.std!r} cannot be kept within {interval}: it must be below that of the"
                f" uniform distribution, {limit!r}"
            )
        elif not math.inf == self.high == -self.low and self.cuts_nothing(
            self.mean, self.std, self.low, self.high
        ):
            warnings.warn(
                f"the absolute bounds {interval} cut nothing: they are more than 8 standard"
                f" deviations ({self.std!r}) from the mean ({self.mean!r});"
                ' bounds="sigma" counts in standard deviations',
                UserWarning,
                stacklevel=3,
            )


def _uniform_std(low: float, high: float) -> float:
    return (high / 2.0 - low / 2.0) / math.sqrt(3.0)


@lru_cache(maxsize=1024)
def _truncated_std(low: float, high: float) -> float:
    """Standard deviation of the standard normal when cut to [low, high]."""
    with _core.IeeeEnvironment():
        return _core.truncated_normal_moments(low, high)[1]


@lru_cache(maxsize=256)
def _parent_std(std: float, low: float, high: float) -> float:
    """Standard deviation of the normal of mean 0 that has `std` when cut to [low, high].

    The standard deviation of the result grows with the parent's, which it never exceeds, towards
    that of the uniform distribution on the interval: a bracket by doubling, then bisection to the
    last bit.
    """

    def cut_std(parent: float) -> float:
        return parent * _core.truncated_normal_moments(low / parent, high / parent)[1]

    with _core.IeeeEnvironment():
        below, above = std, 2.0 * std
        while cut_std(above) < std:
            below, above = above, 2.0 * above
            if above > 1e8 * std:
                raise ValueError(
                    f"std {std!r} cannot be kept: no normal has it when cut to the bounds"
                    f" {low!r} and {high!r} from its mean"
                )
        while below < (middle := below + (above - below) / 2.0) < above:
            if cut_std(middle) < std:
                below = middle
            else:
                above = middle
        return above
