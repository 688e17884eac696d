"""Schemes: a table from the roles of a model's parts to initializers, for each published recipe.

`SCHEMES` is the only list. To add one, write a function of the model in the file of its idea and
put it into `table.py`; its docstring says where its numbers come from. `fanin.rules` says how a
table is read: `embedding` covers every kind of embedding, and a rule that depends on its part is a
function of it. A scheme is given as text, a name with or without options: `fanin.schemes.text`.
"""

from __future__ import annotations

from fanin.model import UNKNOWN, VALUES, Model
from fanin.rules import Rules, own_rules
from fanin.schemes.adjustments import ADJUSTMENTS, adjust
from fanin.schemes.table import LEARNING_RATES, NOTES, SCHEMES
from fanin.schemes.text import Scheme, read

__all__ = ["ADJUSTMENTS", "SCHEMES", "Scheme", "learning_rates", "notes", "read", "rules"]


def rules(scheme: str, model: Model) -> Rules:
    """Return the table of a scheme for a model.

    Parameters
    ----------
    scheme : str
        A name in `SCHEMES`, or one with options: `mup(base_width=256)`. Any scheme takes those of
        `ADJUSTMENTS`: `qk_scale`, `embedding_std`, `head_std`, `zero_head`, `lstm_forget_bias`,
        `output_bias_prior`.
    model : Model

    Raises
    ------
    ValueError
        The text is no scheme, or an option concerns nothing in the model.

    Examples
    --------
    >>> from fanin import families, schemes
    >>> model = families.load("gpt2")
    >>> str(schemes.rules("gpt2", model)["embedding"])
    'normal(std=0.02)'
    >>> schemes.rules("gpt2(lstm_forget_bias=1)", model)
    Traceback (most recent call last):
    ...
    ValueError: lstm_forget_bias: GPT2LMHeadModel has no biases of forget gates
    """
    parsed = read(scheme)
    table: Rules = {**SCHEMES[parsed.name](model, **dict(parsed.own)), **own_rules(model.auto)}
    for option, value in parsed.adjustments:
        table = adjust(table, model, option, value)
    own = {role: model.auto[role] for role in (UNKNOWN, VALUES) if role in model.auto}
    return {**table, **own}


def notes(scheme: str, model: Model) -> list[str]:
    """Return what the user must do beside initializing, a sentence each; mostly there is nothing.

    Examples
    --------
    >>> from fanin import families, schemes
    >>> schemes.notes("fixup", families.load("llama-3.1-8b"))  # doctest: +ELLIPSIS
    ['fixup needs more than weights: a scalar multiplier in each branch, ...']
    """
    parsed = read(scheme)
    return NOTES[parsed.name](model, **dict(parsed.own)) if parsed.name in NOTES else []


def learning_rates(scheme: str, model: Model) -> dict[str, float]:
    """Return the factors of Adam's learning rate, by tensor; empty if the scheme has none.

    Examples
    --------
    >>> from fanin import families, schemes
    >>> rates = schemes.learning_rates("mup(base_width=256)", families.load("llama-3.1-8b"))
    >>> rates["model.embed_tokens.weight"], rates["model.layers.0.self_attn.q_proj.weight"]
    (1.0, 0.0625)
    """
    parsed = read(scheme)
    if parsed.name not in LEARNING_RATES:
        return {}
    return LEARNING_RATES[parsed.name](model, **dict(parsed.own))
