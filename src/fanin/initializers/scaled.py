"""An initializer times a factor: another value of the same kind, from the same draws."""

from __future__ import annotations

from dataclasses import replace

from fanin import _core
from fanin.initializers.base import Initializer
from fanin.initializers.distributions import Constant, Normal, TruncatedNormal, Uniform
from fanin.initializers.orthogonal import DeltaOrthogonal, Orthogonal
from fanin.initializers.scaling import TorchLinear, VarianceScaling
from fanin.initializers.sparse import Sparse
from fanin.initializers.structured import Identity

__all__ = ["scaled"]


def scaled(initializer: Initializer, factor: float) -> Initializer:
    """Return the initializer whose values are `factor` (positive) times as large.

    Raises
    ------
    ValueError
        It is of a kind that has one size only (dirac).

    Examples
    --------
    >>> from fanin.initializers import parse
    >>> print(scaled(parse("normal(std=0.02)"), 0.5), scaled(parse("orthogonal"), 0.5))
    normal(std=0.01) orthogonal(gain=0.5)
    """
    with _core.IeeeEnvironment():
        return _scaled(initializer, factor)


def _scaled(initializer: Initializer, factor: float) -> Initializer:
    match initializer:
        case Constant(value):
            return Constant(value * factor)
        case Uniform(low, high):
            return Uniform(low * factor, high * factor)
        case Normal(mean, std):
            return Normal(mean * factor, std * factor)
        case TruncatedNormal():
            times = factor if initializer.bounds == "absolute" else 1.0
            return TruncatedNormal.as_meant(
                initializer.mean * factor,
                initializer.std * factor,
                initializer.low * times,
                initializer.high * times,
                initializer.bounds,
                initializer.keep_std,
            )
        case VarianceScaling():
            return replace(initializer, scale=initializer.scale * factor * factor)
        case TorchLinear():  # U(+-1/sqrt(fan_in)) has variance 1/3 / fan_in
            return VarianceScaling(factor * factor / 3.0, "fan_in", "uniform")
        case Orthogonal() | DeltaOrthogonal() | Identity():
            return replace(initializer, gain=initializer.gain * factor)
        case Sparse():
            return replace(initializer, std=initializer.std * factor)
    raise ValueError(f"{initializer} has one size only and cannot be scaled")
