"""The scheme of orthogonal matrices."""

from __future__ import annotations

from fanin.gains import gain
from fanin.initializers import Normal, Orthogonal
from fanin.initializers.table import lecun_normal
from fanin.model import Model
from fanin.rules import Rules, weights

__all__ = ["orthogonal"]


def orthogonal(model: Model) -> Rules:
    """Orthogonal matrices, with the activation's gain for what feeds it; embeddings N(0, 0.02^2).

    Saxe et al. 2014, section 3: singular values that are all the same keep them so through any
    depth. Query, key and value are three matrices. In a gated MLP the gate feeds the activation,
    else what goes in. An embedding is a table of vectors, no map between layers; a head that is
    stored by itself is orthogonal. A depthwise convolution leads from no channel to another: it is
    N(0, 1 / taps).
    """
    roles = {part.role for tensor in model.tensors for part in tensor.parts}
    feeds = "mlp.gate" if "mlp.gate" in roles else "mlp.in"
    return {
        **weights(Orthogonal()),
        "embedding": Normal(std=0.02),
        "conv.depthwise": lecun_normal(),
        feeds: Orthogonal(gain(model.activation)),
    }
