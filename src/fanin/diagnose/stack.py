"""A stack of blocks, and what becomes of the signals of two tokens in it.

The rules of `depth.py`, for blocks of attention and an MLP, or experts in its place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fanin.activations import ACTIVATIONS, correlation
from fanin.diagnose.groups import Group
from fanin.diagnose.norms import at_identity
from fanin.diagnose.routing import routing
from fanin.diagnose.softmax import concentration
from fanin.diagnose.structure import Structure
from fanin.model import Model

__all__ = ["Signal", "Stack"]


@dataclass
class Stack:
    """The matrices of a model by block and role, and its structure."""

    structure: Structure
    activation: str
    heads: int  # their size
    query_key_norm: bool
    layers: list[dict[str, Group]]
    embeddings: dict[str, Group]
    projection: float  # of narrow embeddings to the width

    @classmethod
    def of(cls, groups: list[Group], model: Model, structure: Structure) -> Stack | None:
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

    def run(self, tokens: int) -> tuple[list[Signal], list[Signal], list[Signal]]:
        """Send two tokens of a sequence through the blocks.

        Returns the stream behind the embeddings and behind each block, and what the attention and
        the MLP of each block add.
        """
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
            attentions.append(attention)
            mlps.append(mlp)
        return states, attentions, mlps

    def _embedded(self) -> Signal:
        """The sum of the embeddings; those of token types are the same for all tokens."""
        factor = self.structure.embedding_factor * self.projection
        square, shared = 0.0, 0.0
        for role, group in self.embeddings.items():
            mean_square = group.gain**2 / group.fans[0]
            square += mean_square * (factor**2 if role == "embedding" else 1.0)
            shared += mean_square if role == "embedding.token_type" else 0.0
        return Signal(square, shared, factor)

    def _branch(self, stream: Signal, function: Callable[[Signal], Signal]) -> Signal:
        """What a branch adds, with the norms before it and at its end."""
        own = self.structure
        if own.placement in ("pre", "both"):
            stream = stream.normed(own.eps)
        added = function(stream)
        if own.placement in ("both", "end"):
            added = added.normed(own.eps)
        return added.scaled(own.residual_factor**2)

    def _add(self, stream: Signal, *added: Signal) -> Signal:
        for each in added:
            stream = Signal(stream.square + each.square, stream.shared + each.shared, stream.token)
        return stream.normed(self.structure.eps) if self.structure.placement == "post" else stream

    def _attention(self, layer: dict[str, Group], tokens: int, x: Signal) -> Signal:
        """Values, averaged over tokens, and projected."""
        variance = self._score_variance(layer, x)
        # The weights that two tokens share; under a causal mask the mean of 1 / the later position.
        common = 2.0 / (tokens + 1) if self.structure.causal else 1.0 / tokens
        alone = concentration(tokens, variance, causal=self.structure.causal)
        values = x.scaled((layer["attention.value"].gain * layer["attention.out"].gain) ** 2)
        differing = values.square - values.shared
        return Signal(values.shared + alone * differing, values.shared + common * differing)

    def _score_variance(self, layer: dict[str, Group], x: Signal) -> float:
        """Variance of the scores of one query: the part of the keys that differs."""
        query, key = layer["attention.query"].gain, layer["attention.key"].gain
        square = x.square
        if self.query_key_norm:
            query = key = square = 1.0
        factor = self.structure.score_factor
        scale = self.heads * factor**2 if factor is not None else 1.0
        return scale * (query * key * square) ** 2 * (1.0 - x.between)

    def _mlp(self, layer: dict[str, Group], x: Signal) -> Signal:
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
        added = Signal(squares * expert.square, products * expert.shared)
        if "shared.mlp.out" not in layer:
            return added
        shared = self._dense(layer, "shared.", x)
        gate = correlation("sigmoid", layer["router.shared"].gain * math.sqrt(x.square))
        return Signal(
            added.square + gate(1.0) * shared.square, added.shared + gate(x.between) * shared.shared
        )

    def _dense(self, layer: dict[str, Group], kind: str, x: Signal) -> Signal:
        into, out = layer[f"{kind}mlp.in"].gain, layer[f"{kind}mlp.out"].gain
        gated = f"{kind}mlp.gate" in layer
        gate = layer[f"{kind}mlp.gate"].gain if gated else into
        function = correlation(self.activation, gate * math.sqrt(x.square))
        square, shared = function(1.0), function(x.between)
        if gated:
            square, shared = square * into**2 * x.square, shared * into**2 * x.shared
        return Signal(square, shared).scaled(out**2)


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
class Signal:
    """Mean square of a token's vector, mean product of two tokens', factor on the embedding."""

    square: float
    shared: float
    token: float = 0.0

    @property
    def rms(self) -> float:
        """Root of the mean square."""
        return math.sqrt(self.square)

    @property
    def between(self) -> float:
        """Correlation of the two tokens, from 0 to 1."""
        return min(1.0, max(0.0, self.shared / self.square)) if self.square > 0.0 else 0.0

    def scaled(self, factor: float) -> Signal:
        """Return it with its mean square times a factor."""
        return Signal(self.square * factor, self.shared * factor, self.token * math.sqrt(factor))

    def normed(self, eps: float) -> Signal:
        """Return it behind a norm."""
        return self.scaled(1.0 / (self.square + eps)) if self.square > 0.0 else self
