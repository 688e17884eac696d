"""Initializers from text, as in `--set 'lm_head.weight=normal(std=0.01)'`.

The text is a name, or a call with literal arguments: numbers, True, False, `inf`, and words, quoted
or not. It is parsed by Python's own grammar and looked up in the table; nothing is ever evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
import warnings
from typing import Any

from fanin.arguments import unknown
from fanin.initializers.base import Initializer
from fanin.initializers.table import TABLE

_MAX_LENGTH = 1000
_WORDS: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "true": True, "false": False}


def parse(text: str) -> Initializer:
    """Return the initializer that `text` describes.

    Parameters
    ----------
    text : str
        The name of a function of the table and its arguments, by position or by keyword, as
        `str` of an initializer prints it.

    Raises
    ------
    ValueError
        The text is no such call, or an argument is unknown, missing or not allowed.

    Examples
    --------
    >>> from fanin.initializers import parse
    >>> parse("normal(std=0.02)")
    Normal(mean=0.0, std=0.02)
    >>> str(parse("he_normal(gain=relu, truncated=True)"))
    'variance_scaling(scale=2.0)'
    >>> parse("glorot")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: unknown initializer 'glorot'; did you mean 'glorot_normal'? allowed: zeros, ...
    """
    if not isinstance(text, str):
        raise TypeError(f"an initializer's text must be a string, got {text!r}")
    name, args, kwargs = _parse_call(text)
    if name not in TABLE:
        raise ValueError(unknown("initializer", name, TABLE))
    signature = inspect.signature(TABLE[name])
    if strangers := [key for key in kwargs if key not in signature.parameters]:
        raise ValueError(
            f"{text!r}: {unknown(f'argument of {name}', strangers[0], signature.parameters)}"
        )
    try:
        arguments = signature.bind(*args, **kwargs)
        return TABLE[name](*arguments.args, **arguments.kwargs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text!r}: {error}") from error


def _parse_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and keyword arguments of the call that the text is."""
    problem = ValueError(
        f"an initializer is a name or a call such as normal(std=0.02), got {text[:_MAX_LENGTH]!r}"
    )
    if len(text) > _MAX_LENGTH:
        raise problem
    try:
        with warnings.catch_warnings(action="ignore"):
            node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise problem from None
    match node:
        case ast.Name(id=name):
            return name, [], {}
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            named = [(word.arg, word.value) for word in keywords]
        case _:
            raise problem
    literals = [_literal(text, value) for value in args]
    return name, literals, {_keyword(text, key): _literal(text, value) for key, value in named}


def _keyword(text: str, key: str | None) -> str:
    if key is None:
        raise ValueError(f"{text!r}: ** is not allowed")
    return key


def _literal(text: str, node: ast.expr) -> Any:
    """A number, a bool or a word; `inf` may carry a sign."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=word):
            return _WORDS.get(word, word)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _literal(text, operand)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value if isinstance(sign, ast.USub) else value
    raise ValueError(f"{text!r}: arguments must be numbers or words, got {ast.unparse(node)!r}")
