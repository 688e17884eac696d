"""Dtypes of single tensors: `PATTERN=DTYPE` rules over the names of a model's tensors.

They are read as overrides are (the last that matches decides, a pattern that matches nothing is an
error), but match whole tensors, never a part of one. A rule counts more than what a model says of
a tensor, such as the few that stay float32 in a model of bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from fanin.initializers import Constant, Initializer
from fanin.initializers.values import Values
from fanin.model import Model, Tensor
from fanin.output import LITERAL_ITEMSIZE, dtype_name
from fanin.plan.overrides import check_pattern, checked_pattern, pattern_pairs

__all__ = ["DtypeRule", "Dtypes", "dtype_of", "literal", "read_dtypes"]

DtypeRule: TypeAlias = tuple[str, str]

Dtypes: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""What users pass: dtypes by name or as objects."""


def read_dtypes(dtypes: Dtypes, model: Model) -> tuple[DtypeRule, ...]:
    """Return the rules with the names of their dtypes; ValueError if one cannot apply."""
    names = [tensor.name for tensor in model.tensors]
    rules = []
    for given, dtype in pattern_pairs(dtypes, "dtypes", "dtype"):
        pattern = checked_pattern(given, "a dtype")
        check_pattern(pattern, names, model, "dtype for", "tensor")
        try:
            rules.append((pattern, dtype_name(dtype)))
        except (TypeError, ValueError) as error:
            raise type(error)(f"dtype for {pattern!r}: {error}") from None
    return tuple(rules)


def dtype_of(tensor: Tensor, rules: tuple[DtypeRule, ...], default: str) -> str:
    """Return the dtype of a tensor: the last rule's that matches, its own, or the default.

    Examples
    --------
    >>> norm = Tensor("norm.weight", (4,), "norm.scale", None, ())
    >>> dtype_of(norm, (("*norm*", "float32"),), "bfloat16")
    'float32'
    """
    for pattern, dtype in reversed(rules):
        if fnmatchcase(tensor.name, pattern):
            return dtype
    if tensor.dtype is not None:
        return tensor.dtype
    return "float32" if tensor.wide and default == "float16" else default


def literal(initializer: Initializer, dtype: str) -> Initializer:
    """Return a constant as a given value where nothing is sampled in a dtype: zeros of int64."""
    if dtype not in LITERAL_ITEMSIZE or not isinstance(initializer, Constant):
        return initializer
    import numpy as np

    number = initializer.value
    whole = float(number).is_integer() and dtype != "float8_e8m0fnu"
    return Values(np.array(int(number) if whole else number))
