"""Weight matrices that are constant: their units start alike, get like gradients and stay alike.

Zeros are right for what ends a branch or the model (a residual branch that starts as nothing, a
head whose first predictions are uniform), for queries or keys (attention starts as the average) and
for embeddings that are added to others. Not for two matrices in a row: neither gets a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group, having
from fanin.initializers import Constant
from fanin.rules import MATRICES

__all__ = ["check"]

MAY_BE_ZERO = (
    "attention.out",
    "attention.query",
    "attention.key",
    "mlp.out",
    "ssm.out",
    "head",
    "embedding.position",
    "embedding.token_type",
)

CHAINS = (
    ("attention.value", "attention.out"),
    ("attention.query", "attention.key"),
    ("mlp.in", "mlp.out"),
    ("mlp.gate", "mlp.out"),
    ("ssm.in", "ssm.out"),
)
"""Roles whose product is what the block computes: if both are zero, both stay so."""


def check(groups: list[Group]) -> Iterator[Finding]:
    """Yield constant matrices, and chains of zeros; what `auto` makes constant is meant so."""
    constant = [
        group
        for group in groups
        if group.origin != "auto"
        and group.part.layout is not None
        and group.role.partition(".")[0] in MATRICES
        and isinstance(group.initializer, Constant)
        and min(group.part.shape, default=0) > 1
    ]
    zeros = [group for group in constant if group.initializer == Constant(0.0)]
    dead: list[Group] = []
    for chain in CHAINS:
        first, second = (having(zeros, role) for role in chain)
        blocks = {layer for group in first for layer in group.layers}
        if blocks & {layer for group in second for layer in group.layers}:
            dead += [group for group in (*first, *second) if group not in dead]
    if dead:
        yield Finding.of(
            "symmetry",
            dead,
            0.0,
            "all zeros one after the other: no gradient reaches any of them",
            "keep zeros for the last of them",
            warning=True,
        )
    for group in constant:
        if group in dead or (group in zeros and _may_be_zero(group.role)):
            continue
        assert isinstance(group.initializer, Constant)
        yield Finding.of(
            "symmetry",
            [group],
            group.initializer.value,
            f"every element is {group.initializer.value:g}: units that start alike learn alike",
            "use a random initializer",
            warning=True,
        )


def _may_be_zero(role: str) -> bool:
    return any(role == name or role.startswith(f"{name}.") for name in MAY_BE_ZERO)
