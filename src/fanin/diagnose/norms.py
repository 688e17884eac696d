"""Norms that do not start as the identity.

A norm multiplies by its weight, or by 1 + its weight, and both kinds exist under the same names: a
weight of 1 where 0 does nothing doubles the signal at every norm (as in early ports of Gemma).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group
from fanin.initializers import Constant
from fanin.rules import IDENTITY

__all__ = ["at_identity", "check"]


def at_identity(groups: Iterable[Group]) -> bool:
    """True if every norm does nothing yet."""
    return not any(_is_norm(group) and group.initializer != _identity(group) for group in groups)


def check(groups: list[Group]) -> Iterator[Finding]:
    """Yield what an override makes of norms; a scheme's own norms are as the scheme means them."""
    for group in groups:
        if group.origin != "override" or not _is_norm(group):
            continue
        wanted, given = _identity(group), group.initializer
        if given == wanted:
            continue
        value = given.value if isinstance(given, Constant) else group.std
        yield Finding.of(
            "norm",
            [group],
            value,
            f"{given} is not where this norm starts{_effect(group)}",
            f"use {wanted}",
            warning=True,
        )


def _is_norm(group: Group) -> bool:
    return group.role.startswith("norm.") and group.role in IDENTITY


def _identity(group: Group) -> Constant:
    rule = IDENTITY[group.role]
    assert isinstance(rule, Constant)
    return rule


def _effect(group: Group) -> str:
    given = group.initializer
    if group.role == "norm.bias" or not isinstance(given, Constant):
        return ""
    offset = group.role == "norm.scale.offset"
    factor = given.value + (1.0 if offset else 0.0)
    kind = ", which multiplies by 1 + weight" if offset else ""
    return f"{kind}: the signal is multiplied by {factor:g}"
