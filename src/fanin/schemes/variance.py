"""Schemes that keep a signal's variance through each matrix, from its fans alone."""

from __future__ import annotations

import math

from fanin.initializers import Constant, Initializer, Normal, TorchLinear, Uniform
from fanin.initializers.table import glorot_uniform, he_normal, lecun_normal
from fanin.model import Model, Part
from fanin.rules import Rules, weights

__all__ = ["he", "lecun", "torch_default", "xavier"]


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


def lecun(model: Model) -> Rules:
    """N(0, 1 / fan_in) for every matrix, embeddings included.

    LeCun et al. 1998, equation 16; the one that self-normalizing networks need (Klambauer et al.
    2017). An embedding counts the head it may be tied to: its fan_in is the number of features.
    """
    return weights(lecun_normal())


def he(model: Model) -> Rules:
    """N(0, gain^2 / fan_in) with the gain of the config's activation; embeddings have gain 1.

    He et al. 2015, equation 10 and, for other activations than ReLU, gain^2 = 1 / E[f(z)^2].
    As there, one gain serves every matrix, also those that no activation precedes. An embedding
    looks rows up: its fan_in is that of the head it may be tied to.
    """
    return {**weights(he_normal(model.activation)), "embedding": he_normal(1.0)}


def _torch_bias(part: Part) -> Initializer:
    if not part.fan_in:  # a parameter of its own, or of a layer without inputs
        return Constant(0.0)
    limit = 1.0 / math.sqrt(part.fan_in)
    return Uniform(-limit, limit)
