"""Gains that were made for another activation than the one they feed.

He et al. 2015 have the gain sqrt(2) for ReLU, which passes half of the variance. A tanh or sigmoid
passes nearly all of a small signal and is flat for a large one: more than gain 1 only saturates it.
Glorot and Bengio's gain 1 is made for those; under ReLU each layer halves the variance. Smooth kin
of ReLU (GELU, SiLU) have gains between 1.5 and 1.7 of their own and are widely used with either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fanin import _core
from fanin.diagnose.fans import is_explicit
from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group, having
from fanin.initializers import Uniform, VarianceScaling
from fanin.initializers.table import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)
from fanin.model import Model

__all__ = ["check"]

SATURATING = {"tanh": 2.0, "sigmoid": 4.0, "softsign": 3.0}
"""Activations that are flat for large inputs, and from where on: a derivative below 0.1."""

RECTIFIERS = ("relu", "relu6", "leaky_relu")

NORMAL = (he_normal(), lecun_normal(), glorot_normal())
UNIFORM = (he_uniform(), lecun_uniform(), glorot_uniform())

_POOLER = "tanh"
"""The activation behind BERT's pooler, whatever the config says of the others."""


def check(groups: list[Group], model: Model) -> Iterator[Finding]:
    """Yield the matrices whose gain does not go with the activation that they feed."""
    if not model.config:  # made of layers or a tree: nobody knows the activation
        return
    for group, activation in _feeding(groups, model.activation):
        scaling = _scaling(group)
        if scaling is None:
            continue
        gain = math.sqrt(scaling.scale)
        if activation in SATURATING and _near(scaling.scale, 2.0):
            flat = SATURATING[activation]
            problem = (
                f"He's gain sqrt(2), made for ReLU, feeds {activation}:"
                f" {_beyond(flat / gain):.2g} of its inputs lie beyond +-{flat:g}, where it is"
                f" flat, and {_beyond(flat):.2g} at gain 1"
            )
            remedy = f"use xavier_{_distribution(scaling)} or lecun_{_distribution(scaling)}"
        elif activation in RECTIFIERS and _near(scaling.scale, 1.0):
            problem = (
                f"gain 1 ({'Xavier' if scaling.mode == 'fan_avg' else 'LeCun'}'s) feeds"
                f" {activation}, which passes half of the variance"
            )
            remedy = f"use he_{_distribution(scaling)}, gain sqrt(2)"
        else:
            continue
        yield Finding.of("gain", [group], gain, problem, remedy, warning=group.origin != "auto")


def _feeding(groups: list[Group], activation: str) -> Iterator[tuple[Group, str]]:
    """The matrices behind which an activation stands; of a gated MLP the gate."""
    gates = having(groups, "mlp.gate")
    for group in gates or having(groups, "mlp.in"):
        yield group, activation
    for group in having(groups, "head.transform"):
        yield group, activation
    for group in having(groups, "head.pooler"):
        yield group, _POOLER


def _scaling(group: Group) -> VarianceScaling | None:
    """The rule that a group follows, by its kind or, where a user wrote a number, by that."""
    initializer = group.initializer
    if isinstance(initializer, VarianceScaling):
        return initializer
    if group.origin != "override" or not is_explicit(group):
        return None
    kinds = UNIFORM if isinstance(initializer, Uniform) else NORMAL
    part = group.part
    for rule in kinds:
        if _near(group.std, rule.standard_deviation(part.shape, part.layout, part.groups)):
            return rule
    return None


def _distribution(scaling: VarianceScaling) -> str:
    return "uniform" if scaling.distribution == "uniform" else "normal"


def _near(one: float, other: float) -> bool:
    return abs(one / other - 1.0) < 0.02


def _beyond(sigmas: float) -> float:
    """Share of a standard normal beyond +-sigmas."""
    return 2.0 * _core.normal_cdf(-sigmas)
