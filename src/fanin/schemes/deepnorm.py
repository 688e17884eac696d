"""DeepNorm (Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers")."""

from __future__ import annotations

from fractions import Fraction

from fanin.initializers import Initializer
from fanin.initializers.table import glorot_normal, he_normal
from fanin.model import Model, Part
from fanin.rules import Rules, weights
from fanin.schemes.depth import connected, depths, power, stack_and_layer

__all__ = ["constants", "deepnorm", "notes"]

SCALED = ("mlp", "attention.value", "attention.out")
"""Roles with the gain beta; queries and keys have the gain 1."""


def deepnorm(model: Model) -> Rules:
    """Xavier-normal; MLP, value and output projections with the gain beta of the depth.

    Wang et al. 2022, figure 2: beta = (8 N)^(-1/4) for an encoder or a decoder of N layers; beside
    a decoder of M layers (12 M)^(-1/4), the encoder has 0.87 (N^4 M)^(-1/16). Queries and keys have
    the gain 1, embeddings and head N(0, 1 / d) as in the authors' code (torchscale). The other
    half of the method, the residual times alpha, belongs to the model's code: see the notes.
    """
    if not depths(model):
        raise ValueError(f"scheme 'deepnorm' finds no numbered blocks in {model.architecture}")
    betas = {stack: beta for stack, (_, beta) in constants(model).items()}

    def scaled(part: Part) -> Initializer:
        place = stack_and_layer(part)
        return glorot_normal(gain=betas[place[0]] if place else 1.0)

    ends = dict.fromkeys(("embedding", "head"), he_normal(1.0))
    return weights(glorot_normal()) | ends | dict.fromkeys(SCALED, scaled)


def notes(model: Model) -> list[str]:
    """Say what the weights cannot do."""
    told = ", ".join(
        f"{alpha:.6g} in {stack or 'the model'}" for stack, (alpha, _) in constants(model).items()
    )
    return [
        "deepnorm needs more than weights: norm(alpha x + branch(x)) after every branch, with"
        f" alpha {told}"
    ]


def constants(model: Model) -> dict[str, tuple[float, float]]:
    """Return alpha and beta of each stack of blocks."""
    stacks = depths(model)
    if pair := connected(stacks):
        n, m = pair["encoder"], pair["decoder"]
        product = n**4 * m
        encoder = (
            0.81 * power(product, Fraction(1, 16)),
            0.87 * power(product, Fraction(-1, 16)),
        )
        decoder = power(3 * m, Fraction(1, 4)), power(12 * m, Fraction(-1, 4))
        return {stack: encoder if "encoder" in stack.split(".") else decoder for stack in stacks}
    return {
        stack: (power(2 * n, Fraction(1, 4)), power(8 * n, Fraction(-1, 4)))
        for stack, n in stacks.items()
    }
