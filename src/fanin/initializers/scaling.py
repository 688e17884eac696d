"""Initializers that scale with the fans of the weight, so that signals keep their size.

One rule, `Var = scale / fan`, carries the names of Glorot and Bengio (2010), LeCun et al. (1998)
and He et al. (2015); see `fanin.initializers.table` for who uses which scale, fan and distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from fanin import _core
from fanin.arguments import Shape, choice, nonnegative
from fanin.initializers.distributions import Constant, Normal, TruncatedNormal, Uniform
from fanin.initializers.elementwise import Distribution, Elementwise
from fanin.layouts import fans

Mode: TypeAlias = Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"]
DistributionName: TypeAlias = Literal["normal", "uniform", "truncated_normal"]

_MODES: tuple[str, ...] = get_args(Mode)
_DISTRIBUTIONS: tuple[str, ...] = get_args(DistributionName)


@dataclass(frozen=True)
class VarianceScaling(Elementwise):
    """Mean 0 and variance `scale / fan`.

    Parameters
    ----------
    scale : float
        The square of the gain.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
        Which fan: one of them, their arithmetic or their geometric mean.
    distribution : {"normal", "uniform", "truncated_normal"}
        The truncated normal is cut at 2 standard deviations of its parent, which is widened so that
        the variance is kept.
    """

    scale: float = 1.0
    mode: Mode = "fan_in"
    distribution: DistributionName = "truncated_normal"

    text_name: ClassVar[str] = "variance_scaling"
    uses_layout: ClassVar[bool] = True
    uses_fans: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set(scale=nonnegative("scale", self.scale))
        choice("mode", self.mode, _MODES)
        choice("distribution", self.distribution, _DISTRIBUTIONS)

    def for_fans(self, fan_in: float, fan_out: float) -> Distribution:
        """The distribution for those fans, however they were counted."""
        with _core.IeeeEnvironment():
            fan = _mean_fan(self.mode, fan_in, fan_out)
            if fan == 0.0 or self.scale == 0.0:  # no elements, or all of them zero
                return Constant(0.0)
            std = math.sqrt(self.scale) / math.sqrt(fan)
            if self.distribution == "normal":
                return Normal(0.0, std)
            if self.distribution == "truncated_normal":
                return TruncatedNormal(0.0, std, keep_std=True)
            limit = math.sqrt(3.0) * std
            return Uniform(-limit, limit)

    def _resolve(self, shape: Shape, layout: str | None, groups: int) -> Distribution:
        return self.for_fans(*fans(shape, layout, groups))


@dataclass(frozen=True)
class TorchLinear(Elementwise):
    """Uniform on +-1/sqrt(fan_in): what torch's `nn.Linear` and `nn.Conv2d` start from."""

    text_name: ClassVar[str] = "torch_linear"
    uses_layout: ClassVar[bool] = True
    uses_fans: ClassVar[bool] = True

    def _resolve(self, shape: Shape, layout: str | None, groups: int) -> Distribution:
        fan_in, _ = fans(shape, layout, groups)
        if fan_in == 0:
            return Constant(0.0)
        limit = 1.0 / math.sqrt(fan_in)
        return Uniform(-limit, limit)


def _mean_fan(mode: Mode, fan_in: float, fan_out: float) -> float:
    if mode == "fan_in":
        return fan_in
    if mode == "fan_out":
        return fan_out
    if mode == "fan_avg":
        return (fan_in + fan_out) / 2
    return math.sqrt(fan_in * fan_out)
