"""Numbers that look like a rule over the wrong fans.

`std = sqrt(2 / fan_in)` worked out by hand goes wrong where the axes are not read as they are
stored: the fans swapped (a matrix stored (in, out)), or taken over the axis of the experts or the
taps of a kernel, or without the taps. An explicit number is compared with what the known rules
would give over each wrong reading; it counts only if no right reading explains it. Initializers
that know the layout cannot go wrong in this way, and numbers of one digit (0.02) are nobody's fans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group
from fanin.initializers import Normal, TruncatedNormal, Uniform
from fanin.layouts import fans

__all__ = ["check", "is_explicit"]

RULES = {
    "he": ("he_normal", 2.0),
    "lecun": ("lecun_normal", 1.0),
    "torch": ("torch_linear", 1.0 / 3.0),
}
"""Initializers of variance scale / fan_in, and their scales."""

_TOLERANCE = 0.005
"""Of the variance: numbers of three digits."""


def check(groups: list[Group]) -> Iterator[Finding]:
    """Yield the matrices whose explicit numbers fit wrong fans and no right ones."""
    for group in groups:
        if group.origin != "override" or not is_explicit(group):
            continue
        variance = group.std**2
        fan_in, fan_out = group.fans
        if _explained(variance, fan_in, fan_out) or fan_in == 0:
            continue
        for reading, wrong_in, wrong_out in _wrong_readings(group):
            found = _rule(variance, wrong_in)
            if found is not None:
                name, scale = found
                yield _finding(group, reading, wrong_in, name, math.sqrt(scale / fan_in))
                break
            if wrong_out not in (fan_in, fan_out) and _close(
                variance, 2.0 / (wrong_in + wrong_out)
            ):
                right = math.sqrt(2.0 / (fan_in + fan_out))
                yield _finding(group, reading, wrong_in + wrong_out, "xavier_normal", right)
                break


def _finding(group: Group, reading: str, fan: int, name: str, right: float) -> Finding:
    what = "their sum" if name == "xavier_normal" else "fan_in"
    fan_in, fan_out = group.fans
    return Finding.of(
        "fans",
        [group],
        group.std,
        f"std {group.std:.4g} is that of {name} with {reading} ({what} {fan:,});"
        f" fan_in is {fan_in:,} and fan_out {fan_out:,}, which gives {right:.4g}",
        f"use {name}, which knows the layout",
        warning=True,
    )


def is_explicit(group: Group) -> bool:
    """True for a number of the user's own, of more than one digit, on a matrix."""
    initializer = group.initializer
    if group.part.layout is None or not set("oi") <= set(group.part.layout):
        return False
    match initializer:
        case Normal(mean=0.0) | TruncatedNormal(mean=0.0):
            number = initializer.std
        case Uniform() if initializer.low == -initializer.high:
            number = initializer.high
        case _:
            return False
    return number > 0.0 and float(f"{number:.1g}") != number


def _explained(variance: float, fan_in: int, fan_out: int) -> bool:
    """True if a known rule over the right fans gives it; fan_out only where it is Xavier's."""
    return _rule(variance, fan_in) is not None or _close(variance, 2.0 / (fan_in + fan_out))


def _rule(variance: float, fan: int) -> tuple[str, float] | None:
    return next((rule for rule in RULES.values() if _close(variance, rule[1] / fan)), None)


def _close(one: float, other: float) -> bool:
    return abs(one / other - 1.0) < _TOLERANCE


def _wrong_readings(group: Group) -> Iterator[tuple[str, int, int]]:
    """What the fans would be if the axes were something else: in words, fan_in, fan_out."""
    fan_in, fan_out = group.fans
    layout, shape = group.part.layout or "", group.part.shape
    yield "fan_in and fan_out swapped", fan_out, fan_in
    taps = math.prod(size for letter, size in zip(layout, shape, strict=True) if letter == "k")
    if taps > 1:
        yield "the taps of the kernel left out", fan_in // taps, fan_out // taps
        yield "the fans swapped and the taps left out", fan_out // taps, fan_in // taps
    experts = _experts(group)
    if experts > 1:
        yield "the experts counted in", fan_in * experts, fan_out * experts
        yield "the fans swapped and the experts counted in", fan_out * experts, fan_in * experts
    stored = group.tensor.shape
    if len(stored) > 2:
        yield (
            "the fans of torch.nn.init, to which the first two axes are out and in",
            *fans(stored)[:2],
        )
        axes = "k" * (len(stored) - 2)
        yield (
            "the fans of Keras, to which the last two axes are in and out",
            *fans(stored, f"{axes}io"),
        )


def _experts(group: Group) -> int:
    """How many matrices the tensor stacks, or its block has beside each other."""
    layout, stored = group.tensor.layout or "", group.tensor.shape
    if "b" in layout:
        return math.prod(size for letter, size in zip(layout, stored, strict=True) if letter == "b")
    return group.count // max(1, len(group.layers)) if "expert" in group.pattern else 1
