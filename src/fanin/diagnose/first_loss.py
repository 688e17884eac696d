"""The loss before the first step, and heads that make it far larger than ln(vocabulary).

Behind the last norm a hidden state has an RMS of 1, so each logit is N(0, s^2) with s = std
sqrt(width), times what the model's code multiplies by. The expected loss is that of the logarithm
of the sum of their exponentials: about ln n + s^2 / 2, for large s nearly s sqrt(2 ln n)
(`softmax.py`). A head that is tied to the embeddings also finds the token that is read: what is
left of its embedding in the stream gives its own logit a mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanin.diagnose.depth import Depth
from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import Group, having
from fanin.diagnose.softmax import log_sum
from fanin.diagnose.structure import structure_of
from fanin.initializers import Constant
from fanin.model import Model
from fanin.rules import BRANCH_ENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FirstLoss", "check", "predict"]

ALLOWED = 1.0
"""Nats above ln n that are no fault: a GPT-2 starts 0.15 above, Llama-3.1-8B 0.8."""

ALLOWED_PUBLISHED = 2.0
"""Times ln n, for what the published code of a model does itself."""


@dataclass(frozen=True)
class FirstLoss:
    """What a model's first loss should be.

    Attributes
    ----------
    loss : float
        Mean cross-entropy in nats, for targets that have nothing to do with the input.
    uniform : float
        ln of the vocabulary's size: the loss if all tokens were equally likely.
    logit_std : float
        Standard deviation of the logits, before a cap.
    own_logit : float
        Mean logit of the token that is read, for a tied head.
    """

    loss: float
    uniform: float
    logit_std: float
    own_logit: float

    def __str__(self) -> str:
        """Return a line."""
        size = round(math.exp(self.uniform))
        return f"predicted first loss: {self.loss:.4g} (ln {size:,} = {self.uniform:.4g})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return dict(vars(self))


def predict(groups: list[Group], model: Model, depth: Depth | None) -> FirstLoss | None:
    """Return the first loss of a language model, or None if the model is none that is known."""
    head, structure = head_of(groups, model), structure_of(model)
    if head is None or structure is None:
        return None
    width, size = head.part.shape[1], head.part.shape[0]
    square = head.gain**2 / width  # E[w^2]
    passed = 1.0  # RMS of what the head reads
    for narrow in having(groups, "dense"):
        if not narrow.layers and width != model.hidden_size and narrow.fans[1] == width:
            passed = narrow.gain
    std = passed * head.gain * structure.logit_factor
    own = 0.0
    direct = width == model.hidden_size and not having(groups, "head.transform")
    if _is_tied(head) and direct:
        reached = _token_left(groups, head, depth)
        own = reached * width * square * structure.logit_factor
    cap = structure.softcap
    if cap is not None:
        own = cap * math.tanh(own / cap)
    loss = log_sum(size, std, cap=cap, one=own if own > 0.0 else None)
    return FirstLoss(loss, math.log(size), std, own)


def check(groups: list[Group], model: Model, first: FirstLoss | None) -> Iterator[Finding]:
    """Yield a head whose first loss is far above ln n."""
    head = head_of(groups, model)
    if first is None or head is None or first.loss <= first.uniform + ALLOWED:
        return
    published = head.origin == "auto"
    tied = _is_tied(head)
    size, width = head.part.shape
    own = f" and its own token's is {first.own_logit:.3g}" if first.own_logit > 1.0 else ""
    what = "the embedding is also the head, and " if tied else ""
    structure = structure_of(model)
    factor = structure.logit_factor if structure else 1.0
    less = 1.0 / math.sqrt(width) / factor
    if first.own_logit > first.uniform:  # it grows with the std at least
        less = min(less, head.std * first.uniform / first.own_logit)
    yield Finding.of(
        "tied_embedding" if tied else "first_loss",
        [head],
        first.loss,
        f"{what}std {head.std:.3g} gives logits a std of {first.logit_std:.3g}{own}: the first loss"
        f" is about {first.loss:.3g}, where ln {size:,} is {first.uniform:.3g}",
        f"use normal(std={_down(less):g}) or less for it" + (", or untie the head" if tied else ""),
        warning=not published or first.loss > ALLOWED_PUBLISHED * first.uniform,
    )


def head_of(groups: list[Group], model: Model) -> Group | None:
    """Return what makes a language model's logits: its head, or the embedding it is tied to."""
    size = model.config.get("vocab_size")
    for group in having(groups, "head"):
        if group.role == "head" and group.part.shape[0] == size:
            return group
    names = _tied_heads(model.tied)
    return next(
        (group for group in having(groups, "embedding") if group.tensor.name in names), None
    )


def _tied_heads(tied: Mapping[str, str]) -> set[str]:
    """Stored names of what heads are tied to; an alias that is an embedding is no head."""
    last = {alias: alias.split(".")[-2] for alias in tied if alias.endswith(".weight")}
    return {
        tied[alias] for alias, word in last.items() if word == "embed_out" or "embed" not in word
    }


def _token_left(groups: list[Group], head: Group, depth: Depth | None) -> float:
    """The factor on a token's embedding in what the head reads; 0 where nothing is predicted."""
    if depth is not None:
        return depth.token / depth.stream[-1] if depth.stream[-1] > 0.0 else 0.0
    ends = [group for role in BRANCH_ENDS for group in having(groups, role)]
    if head.std == 0.0 or any(group.initializer != Constant(0.0) for group in ends):
        return 0.0
    positions = [group for group in having(groups, "embedding.position") if not group.layers]
    return 1.0 / math.hypot(head.std, *(group.std for group in positions[-1:]))  # the decoder's


def _is_tied(head: Group) -> bool:
    return head.role.startswith("embedding")


def _down(number: float) -> float:
    """The number with two digits, not above it."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.floor(number / unit) * unit:.2g}")
