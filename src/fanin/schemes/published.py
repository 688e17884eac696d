"""Schemes of published models: what their own code starts from, for any model."""

from __future__ import annotations

import math

from fanin.model import Model
from fanin.rules import Rules, normal_weights

__all__ = ["auto", "bert", "gpt2", "llama"]


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
