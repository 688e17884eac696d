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

from fanin.initializers import (
    Constant,
    Initializer,
    Normal,
    Sinusoids,
    TorchLinear,
    TruncatedNormal,
)
from fanin.model import PADDING, Part

__all__ = [
    "BRANCH_ENDS",
    "IDENTITY",
    "OWN",
    "Rule",
    "Rules",
    "by_prefix",
    "initializer_of",
    "own_rules",
    "trunc_normal",
    "weights",
]

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
    "scale": Constant(1.0),  # of a quantized weight
    "scale.e8m0": Constant(127.0),  # the same as the byte of an exponent: 2**0
    "sinusoids.interleaved": Sinusoids("interleaved"),
    "sinusoids.halves": Sinusoids("halves"),
}
"""Norms that do nothing yet, no bias, the slope of a PReLU (He et al. 2015), a zero padding row.

A LoRA pair (Hu et al. 2021) adds nothing yet: `lora.a` is He-uniform with the slope sqrt(5), which
is U(+-1/sqrt(fan_in)), `lora.b` zero; beside an embedding it is the other way round, as in peft.

An attention sink is a logit that belongs to no position (Xiao et al. 2023): at 0 it adds 1 to the
denominator of a head's softmax. Tables of sines and cosines are kept with a model, not trained.
"""

MATRICES = ("embedding", "attention", "mlp", "router", "head", "dense", "conv", "recurrent", "ssm")
"""Roles of weight matrices. `dense` is a layer of which nothing more is known."""

BRANCH_ENDS = ("attention.out", "mlp.out", "ssm.out")
"""Roles of what writes to the residual stream."""


OWN = ("layer_scale", "logit_bias", "logit_scale", "ssm.a_log", "ssm.d", "ssm.dt")
"""Roles of parameters whose values mean something by themselves, such as the decays and time steps
of a state-space layer: every scheme starts them as the architecture does."""


def weights(rule: Rule) -> dict[str, Rule]:
    """Return the table that gives `rule` to every weight matrix, over `IDENTITY`."""
    return {**IDENTITY, **dict.fromkeys(MATRICES, rule)}


def normal_weights(std: float, *, residual: float | None = None) -> dict[str, Rule]:
    """Return the table of N(0, std^2) weights; `residual` is the std of what ends each branch."""
    table = weights(Normal(std=std))
    if residual is not None:
        table |= dict.fromkeys(BRANCH_ENDS, Normal(std=residual))
    return table


def own_rules(auto: Rules) -> dict[str, Rule]:
    """Return those of an architecture's rules that hold in every scheme."""
    return {
        role: rule
        for role, rule in auto.items()
        if any(role == own or role.startswith(f"{own}.") for own in OWN)
    }


def by_prefix(tables: Mapping[str, Rules]) -> dict[str, Rule]:
    """Return one table for parts of several, each for the names that begin with its key.

    The first key that fits decides, so that `""` may stand last for all other names.
    """

    def rule(part: Part) -> Initializer | None:
        for prefix, table in tables.items():
            if part.name.startswith(prefix):
                return initializer_of(table, part)
        return None

    return dict.fromkeys((role for table in tables.values() for role in table), rule)


def trunc_normal(
    std: float, mean: float = 0.0, low: float = -2.0, high: float = 2.0
) -> TruncatedNormal:
    """Return what torch's `trunc_normal_` does: its bounds are values, and may cut nothing."""
    return TruncatedNormal.as_meant(mean, std, low, high, "absolute")


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
