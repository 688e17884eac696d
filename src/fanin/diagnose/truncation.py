"""Truncation that does nothing, or more than was meant.

Bounds of +-2 as values cut a std of 0.02 at 100 sigma: a plain normal. Bounds of +-2 in sigma leave
0.88 of the std that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group
from fanin.initializers import TruncatedNormal

__all__ = ["check"]

_NOTHING = 8.0
"""Sigmas beyond which bounds cut nothing: float32 normals end before."""

_SHRUNK = 0.95
"""Share of the std that must be left: bounds at 3 sigma leave 0.987, at 2 sigma 0.88."""


def check(groups: list[Group]) -> Iterator[Finding]:
    """Yield truncated normals that are none, or that lose a part of their std."""
    alike: dict[TruncatedNormal, list[Group]] = {}
    for group in groups:
        if isinstance(group.initializer, TruncatedNormal) and group.initializer.std > 0.0:
            alike.setdefault(group.initializer, []).append(group)
    for initializer, members in alike.items():
        low, high = initializer.sigma_bounds()
        warning = any(group.origin == "override" for group in members)
        if math.isinf(low) and math.isinf(high):
            continue
        if low < -_NOTHING and high > _NOTHING:
            sigmas = min(-low, high)
            yield Finding.of(
                "truncation",
                members,
                sigmas,
                f"bounds {_interval(initializer)} are {sigmas:.3g} standard deviations away and"
                " cut nothing",
                f"use normal(std={initializer.std:g}), or bounds in sigma:"
                f" truncated_normal(std={initializer.std:g}, keep_std=True)",
                warning=warning,
            )
            continue
        std = members[0].std
        if not initializer.keep_std and std < _SHRUNK * initializer.std:
            yield Finding.of(
                "truncation",
                members,
                std,
                f"cut at {_sigmas(low, high)} sigma the std {initializer.std:g} becomes {std:.4g}",
                "add keep_std=True to keep it",
                warning=warning,
            )


def _interval(initializer: TruncatedNormal) -> str:
    unit = " sigma" if initializer.bounds == "sigma" else ""
    return f"[{initializer.low:g}, {initializer.high:g}]{unit}"


def _sigmas(low: float, high: float) -> str:
    return f"+-{high:.3g}" if low == -high else f"{low:.3g} and {high:.3g}"
