"""Schemes: a table from the roles of a model's parts to initializers, for each published recipe.

`SCHEMES` is the only list. To add one, write a function of the model and put it there; its
docstring says where its numbers come from. `fanin.rules` says how a table is read: `embedding`
covers every kind of embedding, and a rule that depends on its part is a function of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fanin.arguments import unknown
from fanin.gains import gain
from fanin.initializers import (
    Constant,
    Initializer,
    Normal,
    Orthogonal,
    TorchLinear,
    Uniform,
)
from fanin.initializers.table import glorot_uniform, he_normal
from fanin.model import Model, Part
from fanin.rules import Rules, normal_weights, weights

__all__ = ["SCHEMES", "rules"]


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


def auto(model: Model) -> Rules:
    """Do what the architecture's `_init_weights` in transformers 5.24 does."""
    return model.auto


def gpt2(model: Model) -> Rules:
    """N(0, 0.02^2), what ends a residual branch divided by sqrt(2 layers).

    Radford et al. 2019, section 2.3, for the scaling by 1/sqrt(residual layers), of which a block
    has two; 0.02 is the published code's. (That code draws positions from N(0, 0.01^2) and leaves
    the scaling out; this is the form that transformers and Megatron-LM use.)
    """
    return normal_weights(0.02, residual=0.02 / math.sqrt(2 * model.num_layers))


def bert(model: Model) -> Rules:
    """N(0, 0.02^2) for every weight.

    Devlin et al. 2019, published code (`initializer_range`), as in transformers. (The TensorFlow
    code cuts the normal at two standard deviations, which leaves 0.0176.)
    """
    return normal_weights(0.02)


def llama(model: Model) -> Rules:
    """N(0, 0.02^2) for every weight, without residual scaling.

    The `initializer_range` of the published configs (Touvron et al. 2023), as transformers uses it.
    """
    return normal_weights(0.02)


def torch_default(model: Model) -> Rules:
    """What torch's layers start from: U(-1/sqrt(fan_in), 1/sqrt(fan_in)), embeddings N(0, 1).

    `reset_parameters` of nn.Linear (weight and bias), nn.Embedding and nn.LayerNorm; the uniform
    bound is that of LeCun et al. 1998, section 4.6, without its sqrt(3).
    """
    return {**weights(TorchLinear()), "embedding": Normal(std=1.0), "bias": _torch_bias}


def xavier(model: Model) -> Rules:
    """Uniform with variance 2 / (fan_in + fan_out), for every matrix, embeddings included.

    Glorot & Bengio 2010, equation 16. Query, key and value count as three matrices.
    """
    return weights(glorot_uniform())


def he(model: Model) -> Rules:
    """N(0, gain^2 / fan_in) with the gain of the config's activation; embeddings have gain 1.

    He et al. 2015, equation 10 and, for other activations than ReLU, gain^2 = 1 / E[f(z)^2].
    As there, one gain serves every matrix, also those that no activation precedes. An embedding
    looks rows up: its fan_in is that of the head it may be tied to.
    """
    return {**weights(he_normal(model.activation)), "embedding": he_normal(1.0)}


def orthogonal(model: Model) -> Rules:
    """Orthogonal matrices, with the activation's gain for what feeds it; embeddings N(0, 0.02^2).

    Saxe et al. 2014, section 3: singular values that are all the same keep them so through any
    depth. Query, key and value are three matrices. In a gated MLP the gate feeds the activation,
    else what goes in. An embedding is a table of vectors, no map between layers; a head that is
    stored by itself is orthogonal.
    """
    roles = {part.role for tensor in model.tensors for part in tensor.parts}
    feeds = "mlp.gate" if "mlp.gate" in roles else "mlp.in"
    return {
        **weights(Orthogonal()),
        "embedding": Normal(std=0.02),
        feeds: Orthogonal(gain(model.activation)),
    }


SCHEMES: dict[str, Callable[[Model], Rules]] = {
    "auto": auto,
    "gpt2": gpt2,
    "bert": bert,
    "llama": llama,
    "torch_default": torch_default,
    "xavier": xavier,
    "he": he,
    "orthogonal": orthogonal,
}


def _torch_bias(part: Part) -> Initializer:
    if part.fan_in is None:  # a parameter of its own, not a layer's
        return Constant(0.0)
    limit = 1.0 / math.sqrt(part.fan_in)
    return Uniform(-limit, limit)
