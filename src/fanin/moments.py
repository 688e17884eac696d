"""The mean square of a matrix's elements: what an initializer makes of a signal that passes.

A standard deviation says how elements vary, and of a constant matrix it is 0; the size of what a
layer puts out depends on E[w^2] = std^2 + mean^2.
"""

from __future__ import annotations

from fanin import _core
from fanin.initializers import Constant, Initializer, Normal, TruncatedNormal, Uniform
from fanin.initializers.elementwise import Elementwise

__all__ = ["mean", "mean_square"]


def mean_square(
    initializer: Initializer, shape: tuple[int, ...], layout: str | None = None, groups: int = 1
) -> float:
    """Return E[w^2] of an element; where they differ, of a random one.

    Examples
    --------
    >>> mean_square(Constant(0.5), (3, 4))
    0.25
    >>> round(mean_square(Uniform(0.0, 1.0), (3, 4)), 6)
    0.333333
    """
    std = initializer.standard_deviation(shape, layout, groups)
    return std**2 + mean(initializer, shape, layout, groups) ** 2


def mean(
    initializer: Initializer, shape: tuple[int, ...], layout: str | None = None, groups: int = 1
) -> float:
    """Return the mean of an element; 0 for matrices that are made as a whole."""
    if not isinstance(initializer, Elementwise):
        return 0.0
    distribution = initializer.resolve(shape, layout, groups)
    match distribution:
        case Constant():
            return distribution.value
        case Normal():
            return distribution.mean
        case Uniform():
            return (distribution.low + distribution.high) / 2.0
        case TruncatedNormal() if distribution.std > 0.0:
            shift, _ = _core.truncated_normal_moments(*distribution.sigma_bounds())
            return distribution.mean + distribution.parent_std() * shift
    return float(getattr(distribution, "mean", 0.0))
