"""Schemes with one small standard deviation, from nothing or from the model's width."""

from __future__ import annotations

import math

from fanin.initializers import Constant, Initializer, Normal, Uniform
from fanin.model import Model, Part
from fanin.rules import BRANCH_ENDS, Rules, normal_weights, weights
from fanin.schemes.depth import depths, stack_and_layer
from fanin.schemes.options import options, positive

__all__ = ["dummy", "small", "small_init", "wang", "width_of"]


@options(std=positive)
def small(model: Model, std: float = 0.001) -> Rules:
    """N(0, std^2) for every weight, with an std so small (0.001, or 1e-4) that branches start shut.

    A rule of practice, for training with a long warm-up: at first the residual stream carries the
    embeddings alone. Why branches may start near zero: De & Smith 2020, Zhang et al. 2019.
    """
    return normal_weights(std)


def dummy(model: Model) -> Rules:
    """U(-1/64, 1/64) for every weight: for load tests, which need finite numbers, not a model.

    In the place of the random weights that inference servers start from without real ones. 1/64 is
    the smallest normal number of float8_e4m3fn: much smaller values would be zeros there. With that
    dtype, linear layers have scales beside them (`fanin.plan.quantization`). Integers that are
    weights in another form, in a checkpoint that is copied (`--like`), are 0.
    """
    return {**weights(Uniform(-1.0 / 64.0, 1.0 / 64.0)), "packed": Constant(0.0)}


def small_init(model: Model) -> Rules:
    """N(0, 2 / (5 d)) for every weight, d the model's width.

    Nguyen & Salazar 2019, section 2.2 (SmallInit): Xavier's variance for a matrix of d times 4 d,
    also for the square ones of attention. For every weight, as `small_init` of GPT-NeoX.
    """
    return normal_weights(_small_std(model, "small_init"))


def wang(model: Model) -> Rules:
    """N(0, 2 / (5 d)), and 2 / (layers sqrt(d)) for the std of what ends a residual branch.

    `wang_init` of GPT-NeoX, after Wang & Komatsuzaki 2021 (Mesh Transformer JAX), with small_init
    elsewhere: so GPT-NeoX-20B was started (Black et al. 2022, section 2.1.3).
    """
    found, width = depths(model), width_of(model, "wang")

    def branch_end(part: Part) -> Initializer:
        place = stack_and_layer(part)
        layers = found[place[0]] if place else model.num_layers
        return Normal(std=2.0 / (layers * math.sqrt(width)))

    return normal_weights(_small_std(model, "wang")) | dict.fromkeys(BRANCH_ENDS, branch_end)


def width_of(model: Model, scheme: str) -> int:
    """Return the model's width; ValueError if it does not say."""
    if model.hidden_size < 1:
        raise ValueError(
            f"scheme {scheme!r} needs the model's width, which {model.architecture} does not say"
        )
    return model.hidden_size


def _small_std(model: Model, scheme: str) -> float:
    return math.sqrt(2.0 / (5 * width_of(model, scheme)))
