"""The parts of a plan that are alike, taken together: one group for a matrix of all blocks.

A finding should name `model.layers.*.mlp.up_proj.weight` once, not 32 lines of it, and a check of a
model with 45,000 experts should look at a few groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fanin import schemes
from fanin.layouts import fans
from fanin.model import PADDING, Part, Tensor, numberless
from fanin.moments import mean_square
from fanin.plan.overrides import Override, overriding
from fanin.rules import initializer_of

if TYPE_CHECKING:
    from fanin.initializers import Initializer
    from fanin.plan import Plan

__all__ = ["Group", "groups_of", "having"]


@dataclass(frozen=True)
class Group:
    """Parts with the same name but for numbers, the same shape and the same initializer."""

    pattern: str
    tensor: Tensor  # the first
    part: Part  # the first
    initializer: Initializer
    origin: str  # who chose it: "auto", "scheme" or "override"
    names: tuple[str, ...]
    layers: tuple[int, ...]  # numbers of the blocks, ascending

    @property
    def role(self) -> str:
        """What the parts are."""
        return self.part.role

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.names)

    @cached_property
    def fans(self) -> tuple[int, int]:
        """Their fan_in and fan_out."""
        return fans(self.part.shape, self.part.layout, self.part.groups)

    @cached_property
    def std(self) -> float:
        """Their standard deviation."""
        part = self.part
        return self.initializer.standard_deviation(part.shape, part.layout, part.groups)

    @cached_property
    def gain(self) -> float:
        """Factor on the RMS of a signal that passes: sqrt(fan_in E[w^2])."""
        part = self.part
        square = mean_square(self.initializer, part.shape, part.layout, part.groups)
        return math.sqrt(self.fans[0] * square)


def groups_of(plan: Plan, overrides: tuple[Override, ...] | None = None) -> list[Group]:
    """Return the groups of a plan, in the order of their first parts; padding rows are left out.

    `overrides` are those that a user chose, by default all that the plan has.
    """
    chosen = plan.overrides if overrides is None else overrides
    scheme, published = schemes.read(plan.scheme), plan.model.auto
    found: dict[tuple[object, ...], tuple[Tensor, Part, list[str], set[int]]] = {}
    for entry in plan.entries:
        for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
            if part.role == PADDING:
                continue
            if overriding(chosen, entry.tensor, part):
                origin = "override"
            elif scheme.name == "auto" and (
                not scheme.adjustments or initializer_of(published, part) == initializer
            ):
                origin = "auto"
            else:
                origin = "scheme"
            key = (numberless(part.name), part.role, part.shape, initializer, origin)
            _, _, names, layers = found.setdefault(key, (entry.tensor, part, [], set()))
            if not names or names[-1] != part.name:  # bands of one matrix follow each other
                names.append(part.name)
            if part.layer is not None:
                layers.add(part.layer)
    return [
        Group(
            pattern=str(key[0]),
            tensor=tensor,
            part=part,
            initializer=key[3],  # type: ignore[arg-type]
            origin=str(key[4]),
            names=tuple(dict.fromkeys(names)),
            layers=tuple(sorted(layers)),
        )
        for key, (tensor, part, names, layers) in found.items()
    ]


def having(groups: Iterable[Group], *roles: str) -> list[Group]:
    """Return the groups of matrices with one of these roles.

    A role that continues one of them counts as it: `mlp.in.shared` for `mlp.in`.
    """
    return [
        group
        for group in groups
        if group.part.layout is not None
        and any(group.role == role or group.role.startswith(f"{role}.") for role in roles)
    ]
