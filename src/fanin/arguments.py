"""Checks that every public function shares: real numbers, whole numbers, shapes, unknown names.

An error names the argument, quotes the value and says what is allowed. NumPy scalars and 0-d arrays
or tensors count as the number they hold; bool, str and complex are never numbers.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

Shape: TypeAlias = int | Sequence[int]

_MAX_ELEMENTS = 2**63 - 1


def number(name: str, value: Any) -> float:
    """Return `value` as a float, -0.0 as 0.0; TypeError unless it is a real number."""
    if type(value) is float:
        return value or 0.0
    plain = _plain(value)
    if isinstance(plain, bool | str | bytes | complex) or not hasattr(plain, "__float__"):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    try:
        return float(plain) or 0.0
    except OverflowError:
        raise ValueError(f"{name} must fit a float64, got {value!r}") from None


def finite(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    result = number(name, value)
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result!r}")
    return result


def nonnegative(name: str, value: Any) -> float:
    """Return `value` as a finite float that is at least 0."""
    result = number(name, value)
    if not 0.0 <= result < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {result!r}")
    return result


def integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int from `low` to `high`; TypeError unless it is an integer."""
    if type(value) is not int:
        plain = _plain(value)
        if isinstance(plain, bool) or not hasattr(plain, "__index__"):
            raise TypeError(f"{name} must be an integer, got {value!r}")
        value = operator.index(plain)
    if value < low or (high is not None and value > high):
        allowed = f"at least {low}" if high is None else f"from {low} to {_power(high)}"
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool; TypeError for anything else."""
    plain = value if type(value) is bool else _plain(value)
    if not isinstance(plain, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return plain


def choice(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return `value` when it is one of the `allowed` words."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    if value not in allowed:
        raise ValueError(unknown(name, value, allowed))
    return value


def shape_tuple(shape: Any) -> tuple[int, ...]:
    """Return a shape, given as an int or a sequence of ints, as a tuple of ints >= 0."""
    axes = shape if type(shape) is tuple else _axes(shape)
    for size in axes:
        if type(size) is not int or size < 0:
            axes = tuple(integer(f"an axis of shape {shape!r}", size, low=0) for size in axes)
            break
    if math.prod(axes) > _MAX_ELEMENTS:
        raise ValueError(f"shape {axes} has 2**63 elements or more")
    return axes


def unknown(kind: str, given: str, allowed: Iterable[str]) -> str:
    """Say that `given` is no known `kind`, which one is the nearest, and what is allowed."""
    words = list(allowed)
    nearest = difflib.get_close_matches(given.lower(), words, n=1, cutoff=0.5)
    hint = f" did you mean {nearest[0]!r}?" if nearest else ""
    return f"unknown {kind} {given!r};{hint} allowed: {', '.join(words)}"


def _axes(shape: Any) -> tuple[Any, ...]:
    if isinstance(shape, str | bytes | dict | set):
        raise TypeError(f"shape must be an integer or a tuple of integers, got {shape!r}")
    if hasattr(shape, "__index__") and not hasattr(shape, "__len__"):
        return (shape,)
    try:
        return tuple(shape)
    except TypeError:
        raise TypeError(f"shape must be an integer or a tuple of integers, got {shape!r}") from None


def _plain(value: Any) -> Any:
    """The Python number in a NumPy scalar, 0-d array or tensor; None for an array with axes."""
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return value.item() if getattr(value, "ndim", 0) == 0 else None
    return value


def _power(high: int) -> str:
    """A large bound as people write it."""
    return f"2**{high.bit_length()} - 1" if high > 2**31 and high & (high + 1) == 0 else str(high)
