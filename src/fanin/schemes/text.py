"""A scheme as text: a name, or a name with options, such as `gpt2(residual=layers, qk_scale=0.5)`.

It is read as the text of an initializer is, never evaluated, and its canonical form (options that
differ from their defaults, in the order of their declaration) stands in plans and recipes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from fanin.arguments import unknown
from fanin.calls import read_call
from fanin.schemes import options
from fanin.schemes.adjustments import ADJUSTMENTS
from fanin.schemes.table import SCHEMES

__all__ = ["Scheme", "read"]


@dataclass(frozen=True)
class Scheme:
    """A scheme with the values of its own options and of those that any scheme takes."""

    name: str
    own: tuple[tuple[str, Any], ...]  # all of them
    adjustments: tuple[tuple[str, Any], ...]  # those that are given

    def __str__(self) -> str:
        """Return the text that `read` turns into an equal value."""
        defaults = {key: value for key, (_, value) in options.of(SCHEMES[self.name]).items()}
        shown = [(key, value) for key, value in self.own if value != defaults[key]]
        words = [f"{key}={_value_text(value)}" for key, value in (*shown, *self.adjustments)]
        return f"{self.name}({', '.join(words)})" if words else self.name


def read(text: str) -> Scheme:
    """Return the scheme that a text describes.

    Parameters
    ----------
    text : str
        A name in `SCHEMES`, with options by name in parentheses, or without.

    Raises
    ------
    ValueError
        The text is no such call, there is no such scheme or option, or a value is not allowed.

    Examples
    --------
    >>> from fanin import schemes
    >>> print(schemes.read("mup(base_width=256, embedding_std = 1/sqrt(d), head_std=1e-2)"))
    mup(embedding_std=1/sqrt(d), head_std=0.01)
    >>> schemes.read("megatron(stdd=0.02)")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: 'megatron(stdd=0.02)': unknown option of megatron 'stdd'; did you mean 'std'? ...
    """
    if not isinstance(text, str):
        raise TypeError(f"a scheme must be a string, got {text!r}")
    name, args, given = read_call(text, "a scheme", "gpt2(qk_scale=0.5)", expressions=True)
    if name not in SCHEMES:
        raise ValueError(unknown("scheme", name, SCHEMES))
    own = options.of(SCHEMES[name])
    allowed = [*own, *ADJUSTMENTS]
    if args:
        raise ValueError(
            f"{text!r}: options are given by name, such as {allowed[0]}={args[0]!r};"
            f" allowed: {', '.join(allowed)}"
        )
    for key in given:
        if key not in allowed:
            raise ValueError(f"{text!r}: {unknown(f'option of {name}', key, allowed)}")
    try:
        values = {
            key: reader(key, given.get(key, default)) for key, (reader, default) in own.items()
        }
        adjusted = {
            key: adjustment.reader(key, given[key])
            for key, adjustment in ADJUSTMENTS.items()
            if key in given
        }
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r}: {error}") from None
    if adjusted.get("zero_head") and "head_std" in adjusted:
        raise ValueError(f"{text!r}: zero_head and head_std contradict each other")
    kept = tuple((key, value) for key, value in adjusted.items() if value is not False)
    return Scheme(name, tuple(values.items()), kept)


def _value_text(value: Any) -> str:
    """A word or an expression as it is, if it can be read again; else quoted."""
    if not isinstance(value, str):
        return repr(value)
    try:
        node = ast.parse(value, mode="eval").body
    except SyntaxError:
        return repr(value)
    return repr(value) if isinstance(node, ast.Constant) else value
