"""Options of a scheme: which there are, what their values may be, and what is used without them.

A reader takes an option's name and a value as text gives it (a number, a bool or a word) and
returns the value in its one form, so that equal schemes have equal text; or it raises an error that
says what is allowed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fanin.arguments import finite, integer, nonnegative, unknown
from fanin.arguments import flag as read_flag
from fanin.rules import Rules

__all__ = [
    "Reader",
    "flag",
    "of",
    "one_of",
    "options",
    "positive",
    "probability",
    "real",
    "std",
    "std_or_width",
    "width",
]

Reader = Callable[[str, Any], Any]
SchemeFunction = TypeVar("SchemeFunction", bound=Callable[..., Rules])

WIDTH_STD = "1/sqrt(d)"
"""An std in terms of the number of features, as `embedding_std` takes it."""

_READERS: dict[Callable[..., Rules], dict[str, Reader]] = {}


def options(**readers: Reader) -> Callable[[SchemeFunction], SchemeFunction]:
    """Declare how the options of a scheme, arguments of its function, are read."""

    def declare(function: SchemeFunction) -> SchemeFunction:
        _READERS[function] = readers
        return function

    return declare


def of(function: Callable[..., Rules]) -> dict[str, tuple[Reader, Any]]:
    """Return the options of a scheme: the reader and the default of each."""
    parameters = inspect.signature(function).parameters
    readers = _READERS.get(function, {})
    return {name: (reader, parameters[name].default) for name, reader in readers.items()}


def std(name: str, value: Any) -> float:
    """Read a standard deviation, which may be 0."""
    return nonnegative(name, value)


def std_or_width(name: str, value: Any) -> float | str:
    """Read a standard deviation: a number, or 1/sqrt(d) for one of the width."""
    if isinstance(value, str):
        if value.replace(" ", "") != WIDTH_STD:
            raise ValueError(f"{name} must be a number or {WIDTH_STD}, got {value!r}")
        return WIDTH_STD
    return nonnegative(name, value)


def positive(name: str, value: Any) -> float:
    """Read a finite number above 0."""
    if (factor := nonnegative(name, value)) == 0.0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return factor


def probability(name: str, value: Any) -> float:
    """Read a number between 0 and 1, which are excluded."""
    if not 0.0 < (chance := nonnegative(name, value)) < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {value!r}")
    return chance


def width(name: str, value: Any) -> int:
    """Read a number of features."""
    return integer(name, value, low=1, high=2**31 - 1)


def flag(name: str, value: Any) -> bool:
    """Read True or False."""
    return read_flag(name, value)


def one_of(*words: str) -> Reader:
    """Return the reader of one of those words."""

    def read(name: str, value: Any) -> str:
        if value not in words:
            raise ValueError(unknown(name, str(value), words))
        return str(value)

    return read


def real(name: str, value: Any) -> float:
    """Read a finite number."""
    return finite(name, value)
