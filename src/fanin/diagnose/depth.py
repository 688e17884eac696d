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
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fanin.activations import ACTIVATIONS, correlation
from fanin.diagnose.groups import Group, groups_of
from fanin.diagnose.norms import at_identity
from fanin.diagnose.routing import routing
from fanin.diagnose.softmax import concentration
from fanin.diagnose.structure import Structure, structure_of
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
    blocks = _Blocks.of(groups, model, structure)
    if blocks is None:
        return None
    if tokens is None:
        positions = model.config.get("max_position_embeddings") or TOKENS
        tokens = min(TOKENS, int(positions))
    return blocks.run(tokens)


@dataclass
class _Blocks:
    """The matrices of a model by block and role, and its structure."""

    structure: Structure
    activation: str
    heads: int  # their size
    query_key_norm: bool
    layers: list[dict[str, Group]]
    embeddings: dict[str, Group]
    projection: float  # of narrow embeddings to the width

    @classmethod
    def of(cls, groups: list[Group], model: Model, structure: Structure) -> _Blocks | None:
        """Return them, or None if the model has others than those that are predicted."""
        heads = model.config.get("num_attention_heads")
        if model.activation not in ACTIVATIONS or not heads or not at_identity(groups):
            return None
        layers: list[dict[str, Group]] = [{} for _ in range(model.num_layers)]
        embeddings: dict[str, Group] = {}
        projection = 1.0
        for group in groups:
            if group.part.layout is None:
                continue
            if not group.layers:
                if group.role.startswith("embedding"):
                    embeddings[group.role] = group
                elif group.role == "dense" and group.fans[1] == model.hidden_size:
                    projection = group.gain
                continue
            kind = _kind(group)
            if group.count > len(group.layers) and not kind.startswith("experts."):
                return None
            for layer in group.layers:
                if layer >= len(layers) or kind in layers[layer]:
                    return None
                layers[layer][kind] = group
        known = all(_is_predicted(layer, structure) for layer in layers)
        if "embedding" not in embeddings or not known:
            return None
        if structure.embedding_norm and projection != 1.0:  # a norm between them, as in ELECTRA
            return None
        normed = any(re.search(r"\bq_(layer)?norm\b", group.pattern) for group in groups)
        size = model.config.get("head_dim") or model.hidden_size // heads
        return cls(structure, model.activation, size, normed, layers, embeddings, projection)

    def run(self, tokens: int) -> Depth:
        """Send two tokens of a sequence through the blocks."""
        own = self.structure
        stream = self._embedded()
        if own.embedding_norm:
            stream = stream.normed(own.eps)
        states, attentions, mlps = [stream], [], []
        for layer in self.layers:
            attention = self._branch(stream, partial(self._attention, layer, tokens))
            if not own.parallel:
                stream = self._add(stream, attention)
            mlp = self._branch(stream, partial(self._mlp, layer))
            stream = self._add(stream, *((attention, mlp) if own.parallel else (mlp,)))
            states.append(stream)
            attentions.append(math.sqrt(attention.square))
            mlps.append(math.sqrt(mlp.square))
        return Depth(
            tokens=tokens,
            stream=tuple(math.sqrt(state.square) for state in states),
            attention=tuple(attentions),
            mlp=tuple(mlps),
            between=tuple(state.between for state in states),
            token=stream.token,
        )

    def _embedded(self) -> _Signal:
        """The sum of the embeddings; those of token types are the same for all tokens."""
        factor = self.structure.embedding_factor * self.projection
        square, shared = 0.0, 0.0
        for role, group in self.embeddings.items():
            mean_square = group.gain**2 / group.fans[0]
            square += mean_square * (factor**2 if role == "embedding" else 1.0)
            shared += mean_square if role == "embedding.token_type" else 0.0
        return _Signal(square, shared, factor)

    def _branch(self, stream: _Signal, function: Callable[[_Signal], _Signal]) -> _Signal:
        """What a branch adds, with the norms before it and at its end."""
        own = self.structure
        if own.placement in ("pre", "both"):
            stream = stream.normed(own.eps)
        added = function(stream)
        if own.placement in ("both", "end"):
            added = added.normed(own.eps)
        return added.scaled(own.residual_factor**2)

    def _add(self, stream: _Signal, *added: _Signal) -> _Signal:
        for each in added:
            stream = _Signal(stream.square + each.square, stream.shared + each.shared, stream.token)
        return stream.normed(self.structure.eps) if self.structure.placement == "post" else stream

    def _attention(self, layer: dict[str, Group], tokens: int, x: _Signal) -> _Signal:
        """Values, averaged over tokens, and projected."""
        variance = self._score_variance(layer, x)
        # The weights that two tokens share; under a causal mask the mean of 1 / the later position.
        common = 2.0 / (tokens + 1) if self.structure.causal else 1.0 / tokens
        alone = concentration(tokens, variance, causal=self.structure.causal)
        values = x.scaled((layer["attention.value"].gain * layer["attention.out"].gain) ** 2)
        differing = values.square - values.shared
        return _Signal(values.shared + alone * differing, values.shared + common * differing)

    def _score_variance(self, layer: dict[str, Group], x: _Signal) -> float:
        """Variance of the scores of one query: the part of the keys that differs."""
        query, key = layer["attention.query"].gain, layer["attention.key"].gain
        square = x.square
        if self.query_key_norm:
            query = key = square = 1.0
        factor = self.structure.score_factor
        scale = self.heads * factor**2 if factor is not None else 1.0
        return scale * (query * key * square) ** 2 * (1.0 - x.between)

    def _mlp(self, layer: dict[str, Group], x: _Signal) -> _Signal:
        """What the MLP adds, or the experts that a token is sent to and those that all share."""
        if "mlp.out" in layer:
            return self._dense(layer, "", x)
        own, router = self.structure, layer["router"]
        squares, products = routing(
            router.fans[1],
            own.experts_per_token,
            router.gain**2 * x.square,
            x.between,
            normalized=own.normalized_experts,
        )
        expert = self._dense(layer, "experts.", x)
        added = _Signal(squares * expert.square, products * expert.shared)
        if "shared.mlp.out" not in layer:
            return added
        shared = self._dense(layer, "shared.", x)
        gate = correlation("sigmoid", layer["router.shared"].gain * math.sqrt(x.square))
        return _Signal(
            added.square + gate(1.0) * shared.square, added.shared + gate(x.between) * shared.shared
        )

    def _dense(self, layer: dict[str, Group], kind: str, x: _Signal) -> _Signal:
        into, out = layer[f"{kind}mlp.in"].gain, layer[f"{kind}mlp.out"].gain
        gated = f"{kind}mlp.gate" in layer
        gate = layer[f"{kind}mlp.gate"].gain if gated else into
        function = correlation(self.activation, gate * math.sqrt(x.square))
        square, shared = function(1.0), function(x.between)
        if gated:
            square, shared = square * into**2 * x.square, shared * into**2 * x.shared
        return _Signal(square, shared).scaled(out**2)


def _kind(group: Group) -> str:
    """The role of a matrix in its block; those of experts are told from those of an MLP."""
    if re.search(r"\bexperts\b", group.pattern):
        return f"experts.{group.role}"
    if re.search(r"\bshared_experts?\b", group.pattern):
        return f"shared.{group.role}"
    return group.role


def _is_predicted(layer: dict[str, Group], structure: Structure) -> bool:
    """True if a block has the matrices of attention and of an MLP, or of experts."""
    if not layer.keys() >= _ATTENTION:
        return False
    if layer.keys() >= {"mlp.in", "mlp.out"}:
        return True
    routed = {"experts.mlp.in", "experts.mlp.out", "router"}
    alone = "shared.mlp.out" not in layer or "router.shared" in layer
    return structure.experts_per_token > 0 and layer.keys() >= routed and alone


_ATTENTION = {f"attention.{name}" for name in ("query", "key", "value", "out")}


@dataclass(frozen=True)
class _Signal:
    """Mean square of a token's vector, mean product of two tokens', factor on the embedding."""

    square: float
    shared: float
    token: float = 0.0

    @property
    def between(self) -> float:
        return min(1.0, max(0.0, self.shared / self.square)) if self.square > 0.0 else 0.0

    def scaled(self, factor: float) -> _Signal:
        return _Signal(self.square * factor, self.shared * factor, self.token * math.sqrt(factor))

    def normed(self, eps: float) -> _Signal:
        return self.scaled(1.0 / (self.square + eps)) if self.square > 0.0 else self


def _ratio(one: float, other: float) -> float:
    return one / other if other > 0.0 else (math.inf if one > 0.0 else 1.0)
