"""Calls in text, such as `normal(std=0.02)`: read by Python's own grammar, never evaluated.

The text is a name, or a call whose arguments are literals: numbers, True, False, `inf`, and words,
quoted or not. Initializers and schemes are written so.
"""

from __future__ import annotations

import ast
import math
import warnings
from typing import Any, NamedTuple

__all__ = ["Call", "read_call"]

_MAX_LENGTH = 1000
_WORDS: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "true": True, "false": False}


class Call(NamedTuple):
    """What a text says: `name(*args, **kwargs)`."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]


def read_call(text: str, kind: str, example: str, *, expressions: bool = False) -> Call:
    """Return the call that a text is; ValueError if it is none.

    Parameters
    ----------
    text : str
    kind, example : str
        What the text should describe ("an initializer"), and one, for the error.
    expressions : bool, default False
        Whether an argument may be any other expression, which counts as a word: its own text.

    Examples
    --------
    >>> read_call("normal(0, std=2e-2)", "an initializer", "zeros")
    Call(name='normal', args=[0], kwargs={'std': 0.02})
    """
    problem = ValueError(
        f"{kind} is a name or a call such as {example}, got {text[:_MAX_LENGTH]!r}"
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
            return Call(name, [], {})
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            named = [(word.arg, word.value) for word in keywords]
        case _:
            raise problem
    kwargs: dict[str, Any] = {}
    try:
        for key, value in named:
            if key is None:
                raise ValueError(f"{text!r}: ** is not allowed")
            if key in kwargs:
                raise ValueError(f"{text!r}: {key} is given twice")
            kwargs[key] = _literal(text, value, expressions)
        return Call(name, [_literal(text, value, expressions) for value in args], kwargs)
    except RecursionError:  # a tree of hundreds of levels, which the parser takes
        raise problem from None


def _literal(text: str, node: ast.expr, expressions: bool) -> Any:
    """A number, a bool or a word; `inf` may carry a sign."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=word):
            return _WORDS.get(word, word)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _literal(text, operand, False)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value if isinstance(sign, ast.USub) else value
    if expressions:
        return ast.unparse(node)
    raise ValueError(f"{text!r}: arguments must be numbers or words, got {ast.unparse(node)!r}")
