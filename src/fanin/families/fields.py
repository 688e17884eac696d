"""The fields of a config, as a family declares them: a default, other names, and what is allowed.

The defaults are those of the `model_type` in transformers, so that an absent field means what it
means there. A value of the wrong kind is an error before anything is built: it names the file and
the field as the file calls it, quotes the value and says what is allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn, TypeAlias

from fanin.config import quote

__all__ = [
    "Config",
    "Field",
    "count",
    "derived",
    "fixed",
    "flag",
    "indices",
    "labels",
    "natural",
    "number",
    "pair",
    "read",
    "real",
    "size",
    "sub_config",
    "text",
    "token",
]

MAX_SIZE = 2**31 - 1
MAX_LAYERS = 10_000


class Config(SimpleNamespace):
    """The checked fields as attributes, by the names they are declared under."""

    _source: str
    _labels: dict[str, str]

    def label(self, field: str) -> str:
        """Return what the file calls a field."""
        return self._labels[field]

    def plain(self) -> dict[str, Any]:
        """Return the fields as a dictionary, those of parts as dictionaries in it."""
        return {
            key: value.plain() if isinstance(value, Config) else value
            for key, value in vars(self).items()
            if not key.startswith("_")
        }

    def refuse(self, field: str, reason: str) -> NoReturn:
        """Raise the error for a field whose value does not go with the others."""
        refuse(self._source, self.label(field), getattr(self, field), reason)

    def require_multiple(self, field: str, of: str) -> None:
        """Refuse `field` unless it is a multiple of the field `of`."""
        divisor = getattr(self, of)
        if getattr(self, field) % divisor:
            self.refuse(field, f"must be a multiple of {self.label(of)}, which is {divisor}")

    def require_row(self, field: str, rows: str) -> None:
        """Refuse a token that is no row of an embedding with `rows` rows (null is none)."""
        token, end = getattr(self, field), getattr(self, rows)
        if token is not None and not -end <= token < end:
            self.refuse(field, f"must be null or below {self.label(rows)}, which is {end}")


Null: TypeAlias = Callable[[Config], Any]
"""What null, or a default of None, means, from the fields before it."""


@dataclass(frozen=True)
class Field:
    """Which values a field takes, and what an absent or null one means."""

    allowed: str
    accepts: Callable[[Any], bool]
    default: Any
    names: tuple[str, ...] = ()  # in the file, if not the one it is declared under
    null: Null | None = None
    in_file: bool = True
    convert: Callable[[Any], Any] | None = None  # from the file's form of a value
    fields: Mapping[str, Field] | None = None  # of a part of the config with fields of its own


def size(default: int | None, *names: str, null: Null | None = None) -> Field:
    """Declare a width, a vocabulary, a number of heads ...: a positive whole number."""
    return Field(f"a whole number from 1 to {MAX_SIZE}", _whole(1, MAX_SIZE), default, names, null)


def count(default: int | None, *names: str, null: Null | None = None) -> Field:
    """Declare a number of layers."""
    allowed = f"a whole number from 1 to {MAX_LAYERS}"
    return Field(allowed, _whole(1, MAX_LAYERS), default, names, null)


def natural(default: int, *names: str) -> Field:
    """Declare a number of things that there may be none of."""
    return Field(f"a whole number from 0 to {MAX_SIZE}", _whole(0, MAX_SIZE), default, names)


def indices(*names: str) -> Field:
    """Declare a list of layers' numbers; null, and its absence, mean none."""
    return Field("null or a list of whole numbers", _indices, None, names, null=lambda _: [])


def token(default: int | None, *names: str) -> Field:
    """Declare a token's number: a row of the embedding (negative: from the end), or null."""
    allowed = f"null or a whole number from {-MAX_SIZE} to {MAX_SIZE}"
    return Field(allowed, _whole(-MAX_SIZE, MAX_SIZE), default, names, null=lambda _: None)


def number(default: float, *names: str) -> Field:
    """Declare a number that is not negative, such as a standard deviation."""
    return Field("a finite number, 0 or more", _nonnegative, default, names)


def flag(default: bool | None, *names: str, null: Null | None = None) -> Field:
    """Declare a switch."""
    return Field("true or false", lambda value: isinstance(value, bool), default, names, null)


def text(default: str | None, *names: str, null: Null | None = None) -> Field:
    """Declare a name."""
    return Field("a string", lambda value: isinstance(value, str), default, names, null)


def real(default: float, *names: str) -> Field:
    """Declare a number of either sign."""
    return Field("a finite number", _finite, default, names)


def pair(default: int, *names: str) -> Field:
    """Declare a height and a width, which the file gives as one number if they are the same."""
    whole = _whole(1, MAX_SIZE)

    def accepts(value: Any) -> bool:
        sides = value if isinstance(value, list | tuple) and len(value) == 2 else [value]
        return all(map(whole, sides))

    def convert(value: Any) -> tuple[int, int]:
        return (value, value) if isinstance(value, int) else (value[0], value[1])

    allowed = f"a whole number from 1 to {MAX_SIZE}, or a list of two"
    return Field(allowed, accepts, default, names, convert=convert)


def labels() -> dict[str, Field]:
    """Declare `num_labels`, the number of classes: by itself, or as that of their names."""
    names = Field("an object with the names of the classes", _is_labels, None, null=lambda _: None)

    def count(config: Config) -> int:
        return 2 if config.id2label is None else len(config.id2label)

    allowed = f"a whole number from 0 to {MAX_SIZE}"
    return {"id2label": names, "num_labels": Field(allowed, _whole(0, MAX_SIZE), None, null=count)}


def sub_config(fields: Mapping[str, Field], *names: str) -> Field:
    """Declare a part of the config with fields of its own; absent or null, all have defaults."""
    return Field("an object", lambda value: isinstance(value, dict), {}, names, fields=fields)


def fixed(value: Any) -> Field:
    """Declare a fact of the model_type, which no file changes."""
    return Field("", lambda _: True, value, in_file=False)


def derived(value: Callable[[Config], Any]) -> Field:
    """Declare what follows from the fields before it, whatever the file says."""
    return Field("", lambda _: True, None, null=value, in_file=False)


def read(
    raw: Mapping[str, Any], fields: Mapping[str, Field], source: str, prefix: str = ""
) -> Config:
    """Return the checked value of every field, with defaults for those that are absent.

    Where the file uses more than one name of a field, the last one counts (as in transformers,
    where the general name of an old field is set after it). `prefix` goes before the fields' names
    in errors: it says in which part of the config they are.
    """
    config = Config(_source=source, _labels={})
    for key, field in fields.items():
        names = field.names or (key,)
        given = [name for name in names if name in raw] if field.in_file else []
        if field.fields is not None:  # null stands for nothing there
            given = [name for name in given if raw[name] is not None]
        name = given[-1] if given else names[0]
        value, label = raw[name] if given else field.default, f"{prefix}{name}"
        if value is None and field.null is not None:
            value = field.null(config)
        elif not field.accepts(value):
            refuse(source, label, value, f"must be {field.allowed}")
        elif field.fields is not None:
            value = read(value, field.fields, source, f"{label}.")
        elif field.convert is not None:
            value = field.convert(value)
        setattr(config, key, value)
        config._labels[key] = label
    return config


def refuse(source: str, name: str, value: object, reason: str) -> NoReturn:
    """Raise the error for a field: the file, the field, its value and what is wrong with it."""
    raise ValueError(f"{source}: {name} is {quote(value)}: {reason}")


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _indices(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int for each in value)


def _nonnegative(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= sys.float_info.max


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_labels(value: Any) -> bool:
    """True for an object whose keys are numbers, which JSON writes as text."""
    return isinstance(value, dict) and all(str(key).isdecimal() for key in value)
