"""Initializers from text, as in `--set 'lm_head.weight=normal(std=0.01)'`.

The text is a name, or a call with literal arguments (`fanin.calls`), looked up in the table;
nothing is ever evaluated.
"""

from __future__ import annotations

import inspect

from fanin.arguments import unknown
from fanin.calls import read_call
from fanin.initializers.base import Initializer
from fanin.initializers.table import TABLE


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
    name, args, kwargs = read_call(text, "an initializer", "normal(std=0.02)")
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
