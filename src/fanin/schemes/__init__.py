"""Schemes: a table from the roles of a model's parts to initializers, for each published recipe.

`SCHEMES` is the only list. To add one, write a function of the model in the file of its idea and
put it there; its docstring says where its numbers come from. `fanin.rules` says how a table is
read: `embedding` covers every kind of embedding, and a rule that depends on its part is a function
of it.
"""

from __future__ import annotations

from collections.abc import Callable

from fanin.arguments import unknown
from fanin.model import Model
from fanin.rules import Rules
from fanin.schemes import isometry, published, variance

__all__ = ["SCHEMES", "rules"]

SCHEMES: dict[str, Callable[[Model], Rules]] = {
    "auto": published.auto,
    "gpt2": published.gpt2,
    "bert": published.bert,
    "llama": published.llama,
    "torch_default": variance.torch_default,
    "xavier": variance.xavier,
    "he": variance.he,
    "orthogonal": isometry.orthogonal,
}


def rules(scheme: str, model: Model) -> Rules:
    """Return the table of a scheme, by its name, for a model.

    Examples
    --------
    >>> from fanin import families, schemes
    >>> str(schemes.rules("gpt2", families.load("gpt2"))["embedding"])
    'normal(std=0.02)'
    """
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        raise ValueError(unknown("scheme", str(scheme), SCHEMES))
    return SCHEMES[scheme](model)
