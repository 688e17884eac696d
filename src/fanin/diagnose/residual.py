"""Deep stacks whose residual branches are as large as if there were few.

2 L branches of equal size add up to sqrt(2 L) times one. Recipes for deep models divide what ends
each branch by it (GPT-2, Megatron-LM), or something like it (DeepNorm, depth-indexed, Fixup). It is
seen by value: the last matrices of the branches against the others of their blocks, by standard
deviation and by gain, both of which a scaled recipe has smaller. Published models are as deep
without (Llama), so for `auto` this is a note.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group, having
from fanin.diagnose.structure import structure_of
from fanin.model import Model

__all__ = ["check"]

DEEP = 24
"""Blocks from which on it matters."""

_SCALED = 0.5
"""A branch's end is scaled if it is below this share of the rest; 1/sqrt(48) and less, usually."""

_INTO = ("attention.query", "attention.key", "attention.value", "mlp.in", "mlp.gate")


def check(groups: list[Group], model: Model) -> Iterator[Finding]:
    """Yield what ends the branches of a deep stack, if it is not scaled down."""
    structure = structure_of(model)
    if structure is None or structure.placement in (None, "both", "end"):
        return  # a norm at the end of a branch leaves its weights no say
    if structure.residual_factor < _SCALED:
        return
    into = having(groups, *_INTO)
    ends = [*having(groups, "attention.out"), *having(groups, "mlp.out")]
    depth = 1 + max((max(group.layers, default=0) for group in ends), default=0)
    if depth < DEEP or not into:
        return
    std, gain = (_size(into, each) for each in ("std", "gain"))
    unscaled = [
        role
        for role in ("attention.out", "mlp.out")
        if (own := having(ends, role))
        and max(_size(own, "std") / std, _size(own, "gain") / gain) >= _SCALED
    ]
    if not unscaled or not std or not gain:
        return
    left = having(ends, *unscaled)
    divisor = math.sqrt(2 * depth)
    post = structure.placement == "post"
    yield Finding.of(
        "residual_scaling",
        left,
        _size(left, "std"),
        f"std {_size(left, 'std'):.3g}, not scaled down for {2 * depth} residual branches",
        "use deepnorm, or warm up the learning rate"
        if post
        else f"use a scheme that divides it by sqrt({2 * depth}) = {divisor:.3g}, such as gpt2",
        warning=any(group.origin != "auto" for group in left),
    )


def _size(groups: list[Group], number: str) -> float:
    """RMS of a number over the groups, by how many matrices each has; the largest role's."""
    roles = {group.role for group in groups}
    means = []
    for role in roles:
        own = [group for group in groups if group.role == role]
        total = sum(group.count for group in own)
        means.append(sum(group.count * getattr(group, number) ** 2 for group in own) / total)
    return math.sqrt(max(means, default=0.0))
