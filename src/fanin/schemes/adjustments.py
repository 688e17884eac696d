"""Options of any scheme: what they change in its table, role by role.

Each applies to roles that the model must have. An option that concerns nothing would be a silent
way of training with another initialization than one thinks, so it is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from fanin.initializers import Constant, Initializer, Normal
from fanin.initializers.scaled import scaled
from fanin.layouts import fans
from fanin.model import PADDING, Model, Part
from fanin.rules import Rules, initializer_of
from fanin.schemes import options
from fanin.schemes.heads import tied_head

__all__ = ["ADJUSTMENTS", "adjust"]


@dataclass(frozen=True)
class Adjustment:
    """One option: its reader, the roles it concerns, and their initializer with its value."""

    reader: options.Reader
    roles: tuple[str, ...]  # with all that begin so, or, where `exact`, only these
    change: Callable[[Any, Part, Initializer | None], Initializer | None]
    what: str  # the model may lack
    exact: bool = False

    def concerns(self, role: str) -> bool:
        """True for a role whose initializer changes."""
        if role == PADDING or role.endswith(".down"):  # a latent, which is normalized after it
            return False
        return role in self.roles or (
            not self.exact and any(role.startswith(f"{name}.") for name in self.roles)
        )


def adjust(rules: Rules, model: Model, option: str, value: Any) -> Rules:
    """Return a table with an option applied; ValueError if it concerns nothing in the model."""
    adjustment = ADJUSTMENTS[option]
    roles = dict.fromkeys(part.role for tensor in model.tensors for part in tensor.parts)
    concerned = [role for role in roles if adjustment.concerns(role)]
    if not concerned:
        head = tied_head(model) if adjustment.roles == ("head",) else None
        hint = "" if head is None else f" ({head} is tied to {model.tied[head]}; untie it first)"
        raise ValueError(f"{option}: {model.architecture} has no {adjustment.what}{hint}")

    def as_before(part: Part) -> Initializer | None:
        return initializer_of(rules, part)

    def changed(part: Part) -> Initializer | None:
        return adjustment.change(value, part, as_before(part))

    # Every role by its whole name: a change of `head` does not reach `head.transform`.
    return {**rules, **dict.fromkeys(roles, as_before), **dict.fromkeys(concerned, changed)}


def _qk_scale(factor: float, part: Part, old: Initializer | None) -> Initializer | None:
    """Queries and keys times a factor: small ones start attention nearly uniform."""
    return None if old is None else scaled(old, factor)


def _embedding_std(value: float | str, part: Part, old: Initializer | None) -> Initializer:
    """N(0, std^2) for every embedding; 1/sqrt(d) of the features that its rows have."""
    if isinstance(value, str):
        return Normal(std=1.0 / math.sqrt(fans(part.shape, part.layout)[0]))
    return Normal(std=value)


def _head_std(value: float, part: Part, old: Initializer | None) -> Initializer:
    """N(0, std^2) for the output head."""
    return Normal(std=value)


def _zero_head(value: bool, part: Part, old: Initializer | None) -> Initializer | None:
    """A head of zeros: every class has the same probability at first."""
    return Constant(0.0) if value else old


def _lstm_forget_bias(value: float, part: Part, old: Initializer | None) -> Initializer:
    """The value in one of the two biases that a gate adds up, and 0 in the other.

    Gers et al. 2000, Jozefowicz et al. 2015: a forget gate that starts open.
    """
    return Constant(0.0 if "bias_hh" in part.name else value)


def _output_bias_prior(value: float, part: Part, old: Initializer | None) -> Initializer:
    """log(p / (1 - p)), which a sigmoid turns into p (Lin et al. 2017, section 4.1)."""
    context = Context(prec=40)  # correctly rounded everywhere, unlike the logarithm of a C library
    p = Decimal(value)
    odds = context.divide(p, context.subtract(Decimal(1), p))
    return Constant(float(odds.ln(context)))


ADJUSTMENTS: dict[str, Adjustment] = {
    "qk_scale": Adjustment(
        options.positive,
        ("attention.query", "attention.key"),
        _qk_scale,
        "matrices of queries or keys",
    ),
    "embedding_std": Adjustment(options.std_or_width, ("embedding",), _embedding_std, "embedding"),
    "head_std": Adjustment(options.std, ("head",), _head_std, "output head of its own", True),
    "zero_head": Adjustment(options.flag, ("head",), _zero_head, "output head of its own", True),
    "lstm_forget_bias": Adjustment(
        options.real, ("bias.forget",), _lstm_forget_bias, "biases of forget gates"
    ),
    "output_bias_prior": Adjustment(
        options.probability, ("bias.head",), _output_bias_prior, "bias of an output head"
    ),
}
"""The only list of them, in the order in which they are applied and printed."""
