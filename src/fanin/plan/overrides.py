"""Overrides: `PATTERN=INITIALIZER` rules over the names of a model's tensors and parts.

Patterns are shell-style globs (`*.c_proj.weight`, `*.c_attn.weight#query`), matched against whole
names, case included. The last that matches decides; one pattern with two initializers is an error.
A rule that silently matches nothing is the usual way to train with another
initialization than one thinks, so here it is an error that lists the nearest names; and so is a
rule for a tied name, which no file stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from fanin.initializers import Initializer, parse
from fanin.model import PADDING, Model, Part, Tensor, numberless

__all__ = [
    "LocatedPattern",
    "Override",
    "Overrides",
    "override_pairs",
    "overriding",
    "read_overrides",
    "replacing",
]

Override: TypeAlias = tuple[str, Initializer]

Overrides: TypeAlias = Mapping[str, str | Initializer] | Iterable[tuple[str, str | Initializer]]
"""What users pass: initializers as values or as text."""


class LocatedPattern(str):
    """A pattern that knows the place it was read from, which an error about it tells."""

    where: str

    def __new__(cls, pattern: str, where: str) -> LocatedPattern:
        """Make one: `where` is such as `rules.toml, line 3: ...`."""
        located = super().__new__(cls, pattern)
        located.where = where
        return located


def override_pairs(overrides: Overrides) -> list[tuple[str, str | Initializer]]:
    """Return overrides as a list of (pattern, initializer); TypeError if they are not that."""
    return pattern_pairs(overrides, "overrides", "initializer")


def pattern_pairs(given: Any, argument: str, value: str) -> list[tuple[str, Any]]:
    """Return a mapping or pairs as a list of pairs; TypeError, naming both, if it is neither."""
    items = given.items() if isinstance(given, Mapping) else given
    pairs = list(items) if isinstance(items, Iterable) and not isinstance(items, str) else None
    if pairs is None or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs
    ):
        raise TypeError(f"{argument} must be a mapping or (pattern, {value}) pairs, got {given!r}")
    return [(pattern, found) for pattern, found in pairs]


def read_overrides(overrides: Overrides, model: Model) -> tuple[Override, ...]:
    """Return the overrides with their initializers parsed; ValueError if one cannot apply."""
    pairs = override_pairs(overrides)
    read = tuple((checked_pattern(given), _initializer(given, rule)) for given, rule in pairs)
    _check_ranks(read)
    names = dict.fromkeys(
        name
        for tensor in model.tensors
        for name in (tensor.name, *(part.name for part in tensor.parts))
    )
    for pattern, _ in read:
        check_pattern(pattern, list(names), model)
    rules = tuple((str(pattern), initializer) for pattern, initializer in read)
    _check_ties(rules, model)
    return rules


def replacing(first: Overrides, then: Overrides) -> list[tuple[str, str | Initializer]]:
    """Return overrides of which the later ones replace those with the same pattern."""
    last = override_pairs(then)
    patterns = {pattern for pattern, _ in last}
    return [pair for pair in override_pairs(first) if pair[0] not in patterns] + last


def overriding(overrides: tuple[Override, ...], tensor: Tensor, part: Part) -> Initializer | None:
    """Return the initializer of the last override that matches a part or its tensor, if any."""
    if part.role == PADDING:
        return None
    for pattern, initializer in reversed(overrides):
        if fnmatchcase(part.name, pattern) or fnmatchcase(tensor.name, pattern):
            return initializer
    return None


def _check_ranks(overrides: tuple[Override, ...]) -> None:
    """Raise ValueError for one pattern with two initializers: neither comes before the other."""
    known: dict[str, Initializer] = {}
    for pattern, initializer in overrides:
        if known.setdefault(pattern, initializer) != initializer:
            raise ValueError(
                f"{_origin(pattern)}override {pattern!r} is given twice, with {known[pattern]} and"
                f" with {initializer}: keep one"
            )


def _origin(pattern: str) -> str:
    return f"{pattern.where}: " if isinstance(pattern, LocatedPattern) else ""


def checked_pattern(given: object, rule: str = "an override") -> str:
    """Return a pattern; TypeError if it is no string."""
    if not isinstance(given, str):
        raise TypeError(f"the pattern of {rule} must be a string, got {given!r}")
    return given


def _initializer(pattern: str, given: str | Initializer) -> Initializer:
    if isinstance(given, Initializer):
        return given
    try:
        return parse(given)
    except ValueError as error:
        raise ValueError(f"override {pattern!r}: {error}") from None


def check_pattern(
    pattern: str,
    names: list[str],
    model: Model,
    rule: str = "override",
    targets: str = "tensor and no part",
) -> None:
    """Raise ValueError for a pattern that matches nothing, or only a name that is not stored."""
    for alias, stored in model.tied.items():
        if fnmatchcase(alias, pattern) and not fnmatchcase(stored, pattern):
            raise ValueError(
                f"{_origin(pattern)}{rule} {pattern!r}: {alias} is tied to {stored} in this model"
                f" and not stored; set {stored}, or tie_word_embeddings to false in the config"
            )
    if not any(fnmatchcase(name, pattern) for name in names):
        near = ", ".join(_nearest(pattern, names))
        raise ValueError(f"{_origin(pattern)}{rule} {pattern!r} matches no {targets}; near: {near}")


def _check_ties(overrides: tuple[Override, ...], model: Model) -> None:
    """Raise ValueError if a tied name and the stored one would have different initializers."""

    def last(name: str) -> Override | None:
        return next((rule for rule in reversed(overrides) if fnmatchcase(name, rule[0])), None)

    for alias, stored in model.tied.items():
        one, other = last(alias), last(stored)
        if one is not None and other is not None and one[1] != other[1]:
            raise ValueError(
                f"{alias} is tied to {stored}, but the override {one[0]!r} sets it to {one[1]} and"
                f" {other[0]!r} sets {stored} to {other[1]}: use one initializer for both, or set"
                " tie_word_embeddings to false in the config"
            )


def _nearest(pattern: str, names: list[str], limit: int = 3) -> list[str]:
    """Names most like a pattern, with block numbers as `*`, compared over as many dotted words."""
    words = pattern.count(".") + 1

    def likeness(name: str) -> float:
        ending = ".".join(name.split(".")[-words:])
        return max(SequenceMatcher(None, pattern, text).ratio() for text in (name, ending))

    return sorted(dict.fromkeys(map(numberless, names)), key=likeness, reverse=True)[:limit]
