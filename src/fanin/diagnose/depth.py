"""How large the signal is behind each block, predicted from the plan alone.

The mean-field model of signals at initialization (Poole et al. 2016; for transformers Noci et al.
2022): weights are independent with mean 0, so the mean squares of what is added add up, and a
matrix multiplies the mean square by fan_in E[w^2]. Two numbers go from block to block: the mean
square of the residual stream, and the covariance of two tokens in it, since attention averages over
tokens and keeps only what these share.

* A norm divides by the mean square (and its epsilon); biases are 0.
* The activation's mean square, and the correlation behind it, are integrals (`fanin.activations`).
  In a gated MLP the gate and what it multiplies are independent.
* Scores of queries and keys are normal and independent (`softmax.py`): small ones average over the
  tokens, large ones choose. Of a causal mask the mean over positions is taken.
* Tokens and positions are random: their embeddings do not correlate, but for token types.

* A router's scores are normal; experts are independent of each other (`routing.py`).

Left out: dropout, rotations, position biases, sliding windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanin.diagnose.groups import Group, groups_of
from fanin.diagnose.stack import Stack
from fanin.diagnose.structure import structure_of
from fanin.model import Model

if TYPE_CHECKING:
    from fanin.plan import Plan

__all__ = ["Depth", "predict"]

TOKENS = 1024


@dataclass(frozen=True)
class Depth:
    """RMS of the residual stream and of what each block adds to it.

    Attributes
    ----------
    tokens : int
        Length of the sequence.
    stream : tuple of float
        RMS behind the embeddings, then behind each block.
    attention, mlp : tuple of float
        RMS of what the branches of each block add.
    between : tuple of float
        Correlation of two tokens, as `stream`.
    token : float
        What is left of a token's embedding at the end, as a factor on its row of the table.
    """

    tokens: int
    stream: tuple[float, ...]
    attention: tuple[float, ...]
    mlp: tuple[float, ...]
    between: tuple[float, ...]
    token: float

    @property
    def growth(self) -> float:
        """RMS at the end over that of the embeddings."""
        return _ratio(self.stream[-1], self.stream[0])

    @property
    def factor(self) -> float:
        """Factor a block: the geometric mean over all blocks but the first."""
        blocks = len(self.stream) - 2
        return _ratio(self.stream[-1], self.stream[1]) ** (1 / blocks) if blocks > 0 else 1.0

    def __str__(self) -> str:
        """Return a line: the embeddings, the first block, the end."""
        return (
            f"predicted RMS of the residual stream: {self.stream[0]:.3g} behind the embeddings,"
            f" {self.stream[1]:.3g} behind the first block, {self.stream[-1]:.3g} at the end"
            f" (x {self.growth:.3g}; x {self.factor:.4g} a block after the first)"
        )

    def table(self) -> str:
        """Return a row a block."""
        rows = [("block", "stream", "factor", "attention", "mlp", "correlation")]
        for block, (rms, between) in enumerate(zip(self.stream, self.between, strict=True)):
            start = ("embeddings", f"{rms:.4g}", "", "", "", f"{between:.3f}")
            if block == 0:
                rows.append(start)
                continue
            factor = _ratio(rms, self.stream[block - 1])
            added = (self.attention[block - 1], self.mlp[block - 1])
            attention, mlp = (f"{each:.4g}" for each in added)
            row = (str(block - 1), f"{rms:.4g}", f"{factor:.4g}", attention, mlp, f"{between:.3f}")
            rows.append(row)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**vars(self), "growth": self.growth, "factor": self.factor}


def predict(plan: Plan, tokens: int | None = None) -> Depth | None:
    """Return the sizes of a plan's signals, or None for a model whose structure is not known.

    Parameters
    ----------
    plan : Plan
    tokens : int, optional
        Length of the sequence. Default: 1024, or the model's positions if they are fewer.

    Examples
    --------
    >>> from fanin import families
    >>> from fanin.plan import make_plan
    >>> depth = predict(make_plan(families.load("gpt2")))
    >>> len(depth.stream), round(depth.stream[0], 4)
    (13, 0.0283)
    """
    return of_groups(groups_of(plan), plan.model, tokens)


def of_groups(groups: list[Group], model: Model, tokens: int | None = None) -> Depth | None:
    """Return what `predict` does, from the groups of a plan."""
    structure = structure_of(model)
    if structure is None or structure.placement is None:
        return None
    stack = Stack.of(groups, model, structure)
    if stack is None:
        return None
    if tokens is None:
        positions = model.config.get("max_position_embeddings") or TOKENS
        tokens = min(TOKENS, int(positions))
    states, attentions, mlps = stack.run(tokens)
    return Depth(
        tokens=tokens,
        stream=tuple(state.rms for state in states),
        attention=tuple(added.rms for added in attentions),
        mlp=tuple(added.rms for added in mlps),
        between=tuple(state.between for state in states),
        token=states[-1].token,
    )


def _ratio(one: float, other: float) -> float:
    return one / other if other > 0.0 else (math.inf if one > 0.0 else 1.0)
