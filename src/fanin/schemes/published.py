"""Schemes of published models: what their own code starts from, for any model."""

from __future__ import annotations

import math

from fanin.initializers import Initializer, Normal
from fanin.model import Model, Part
from fanin.rules import BRANCH_ENDS, Rules, normal_weights

__all__ = ["auto", "bert", "gpt2", "llama"]


def auto(model: Model) -> Rules:
    """Do what the architecture's `_init_weights` in transformers 5.24 does."""
    return model.auto


def gpt2(model: Model) -> Rules:
    """N(0, 0.02^2), what ends a residual branch divided by sqrt(2 layers).

    Radford et al. 2019, section 2.3, for the scaling by 1/sqrt(residual layers), of which a block
    has two; 0.02 is the published code's. (That code draws positions from N(0, 0.01^2) and leaves
    the scaling out; this is the form that transformers and Megatron-LM use.) Of an encoder and a
    decoder each has its own number, and blocks with cross-attention have three.
    """

    def branch_end(part: Part) -> Initializer:
        return Normal(std=0.02 / math.sqrt(part.branches or 2 * model.num_layers))

    return normal_weights(0.02) | dict.fromkeys(BRANCH_ENDS, branch_end)


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
