"""Schemes of published models: what their own code starts from, for any model."""

from __future__ import annotations

import math

from fanin.initializers import Initializer, Normal, TruncatedNormal
from fanin.layouts import fans
from fanin.model import Model, Part
from fanin.rules import BRANCH_ENDS, Rules, normal_weights, weights
from fanin.schemes.depth import depths, num_branches, stack_and_layer
from fanin.schemes.options import one_of, options, positive

__all__ = ["auto", "bert", "gpt2", "llama", "megatron", "olmo"]


def auto(model: Model) -> Rules:
    """Do what the architecture's `_init_weights` in transformers 5.24 does."""
    return model.auto


@options(residual=one_of("branches", "layers"))
def gpt2(model: Model, residual: str = "branches") -> Rules:
    """N(0, 0.02^2), what ends a residual branch divided by sqrt(2 layers).

    Radford et al. 2019, section 2.3, for the scaling by 1/sqrt(residual layers), of which a block
    has two; 0.02 is the published code's. (That code draws positions from N(0, 0.01^2) and leaves
    the scaling out; this is the form that transformers and Megatron-LM use.) Of an encoder and a
    decoder each has its own number, and blocks with cross-attention have three.

    `residual=layers` counts a block once, as one may also read the paper: sqrt(layers).
    """
    if residual == "branches":
        return _residual_scaled(model, 0.02)
    found = depths(model)

    def branch_end(part: Part) -> Initializer:
        place = stack_and_layer(part)
        return Normal(std=0.02 / math.sqrt(found[place[0]] if place else model.num_layers))

    return normal_weights(0.02) | dict.fromkeys(BRANCH_ENDS, branch_end)


@options(std=positive)
def megatron(model: Model, std: float = 0.02) -> Rules:
    """N(0, std^2), the output layers of attention and MLP divided by sqrt(2 layers).

    Megatron-LM: `init_method_std`, 0.02 by default, for embeddings, matrices and the head;
    `scaled_init_method_normal` for `output_layer_init_method` (Shoeybi et al. 2019, section 4.2).
    """
    return _residual_scaled(model, std)


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


def olmo(model: Model) -> Rules:
    """1/fan_in for the variance, what ends a branch of block i over 2 (i + 1), cut at 3 sigma.

    Groeneveld et al. 2024: `init_fn: mitchell` of OLMo's code, std 1/sqrt(d_model) for embeddings,
    head and what reads the residual stream, 1/sqrt(2 d_model (i + 1)) for attention's output and
    1/sqrt(2 d_ff (i + 1)) for the MLP's, i from 0; the normal is cut at 3 of its standard
    deviations, which leaves 0.987 of each.
    """

    def matrix(part: Part, times: int = 1) -> Initializer:
        fan_in, _ = fans(part.shape, part.layout, part.groups)
        return TruncatedNormal(std=1.0 / math.sqrt(times * max(fan_in, 1)), low=-3.0, high=3.0)

    def branch_end(part: Part) -> Initializer:
        place = stack_and_layer(part)
        return matrix(part, 2 * ((place[1] if place else 0) + 1))

    return weights(matrix) | dict.fromkeys(BRANCH_ENDS, branch_end)


def _residual_scaled(model: Model, std: float) -> Rules:
    """N(0, std^2), and what ends a branch divided by the root of their number."""

    def branch_end(part: Part) -> Initializer:
        return Normal(std=std / math.sqrt(num_branches(model, part)))

    return normal_weights(std) | dict.fromkeys(BRANCH_ENDS, branch_end)
