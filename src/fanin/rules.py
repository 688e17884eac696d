"""Rules: which initializer a role gets.

A role is a dotted word, general first (`attention.query`, `norm.scale`). A table of rules may name
it in full or by any leading part, and the longest name wins: `attention` covers four projections,
`attention.out` only the last. A rule is an initializer, or a function of the part where the value
depends on it (the fan_in of a bias, the number of the block). A role that no rule covers is an
error: nothing is left to a default that nobody chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from fanin.initializers import Constant, Initializer, Normal, Sinusoids, TorchLinear
from fanin.model import PADDING, Part

__all__ = ["BRANCH_ENDS", "IDENTITY", "Rule", "Rules", "initializer_of", "weights"]

Rule: TypeAlias = Initializer | Callable[[Part], Initializer | None]
Rules: TypeAlias = Mapping[str, Rule]

IDENTITY: Rules = {
    "norm.scale": Constant(1.0),
    "norm.scale.offset": Constant(0.0),  # of a norm that multiplies by 1 + weight
    "norm.bias": Constant(0.0),
    "bias": Constant(0.0),
    "activation.slope": Constant(0.25),
    "attention.sink": Constant(0.0),
    "lora.a": TorchLinear(),
    "lora.b": Constant(0.0),
    "lora.a.embedding": Constant(0.0),
    "lora.b.embedding": Normal(std=1.0),
    PADDING: Constant(0.0),
    "sinusoids.interleaved": Sinusoids("interleaved"),
    "sinusoids.halves": Sinusoids("halves"),
}
"""Norms that do nothing yet, no bias, the slope of a PReLU (He et al. 2015), a zero padding row.

A LoRA pair (Hu et al. 2021) adds nothing yet: `lora.a` is He-uniform with the slope sqrt(5), which
is U(+-1/sqrt(fan_in)), `lora.b` zero; beside an embedding it is the other way round, as in peft.

An attention sink is a logit that belongs to no position (Xiao et al. 2023): at 0 it adds 1 to the
denominator of a head's softmax. Tables of sines and cosines are kept with a model, not trained.
"""

MATRICES = ("embedding", "attention", "mlp", "router", "head", "dense", "conv", "recurrent")
"""Roles of weight matrices. `dense` is a layer of which nothing more is known."""

BRANCH_ENDS = ("attention.out", "mlp.out")
"""Roles of what writes to the residual stream."""


def weights(rule: Rule) -> dict[str, Rule]:
    """Return the table that gives `rule` to every weight matrix, over `IDENTITY`."""
    return {**IDENTITY, **dict.fromkeys(MATRICES, rule)}


def normal_weights(std: float, *, residual: float | None = None) -> dict[str, Rule]:
    """Return the table of N(0, std^2) weights; `residual` is the std of what ends each branch."""
    table = weights(Normal(std=std))
    if residual is not None:
        table |= dict.fromkeys(BRANCH_ENDS, Normal(std=residual))
    return table


def initializer_of(rules: Rules, part: Part) -> Initializer | None:
    """Return the initializer of a part: the longest name that leads its role decides.

    Examples
    --------
    >>> part = Part("w", "mlp.out", (2, 2), "oi", (0, 0), (2, 2), (0, 0), (1, 1))
    >>> initializer_of({"mlp": Constant(1.0), "mlp.out": Constant(0.0)}, part)
    Constant(value=0.0)
    """
    name = part.role
    while name and name not in rules:
        name = name.rpartition(".")[0]
    rule = rules.get(name)
    return rule if rule is None or isinstance(rule, Initializer) else rule(part)
