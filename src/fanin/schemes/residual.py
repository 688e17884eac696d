"""Schemes in which residual branches start at zero: fixup and zero_residual."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from fanin.initializers import Constant, Initializer
from fanin.initializers.scaled import scaled
from fanin.initializers.table import glorot_uniform, he_normal
from fanin.model import Model, Part
from fanin.rules import BRANCH_ENDS, Rules, weights
from fanin.schemes.depth import connected, depths, num_branches, power, stack_and_layer
from fanin.schemes.heads import tied_head
from fanin.schemes.options import options

__all__ = [
    "fixup",
    "fixup_notes",
    "zero_residual",
    "zero_residual_learning_rates",
    "zero_residual_notes",
]

ENDS = (*BRANCH_ENDS, "conv.out")
"""Roles of the last matrix of a residual branch."""


def fixup(model: Model) -> Rules:
    """The last matrix of each branch and the head zero, the others times L^(-1/(2 m - 2)).

    Zhang et al. 2019, section 3: L residual branches, m matrices in one. The MLP's others are
    He-normal with the gain of the activation (m = 2; 3 with a gate), query, key and value
    Xavier-uniform (m = 4), convolutions He-normal, embeddings N(0, 1 / d), as in the authors' code
    for transformers and ResNets. An encoder and its decoder count together. The scalar
    multipliers and biases of the paper belong to the model's code, as does leaving the norms out.
    """
    roles = [part.role for tensor in model.tensors for part in tensor.parts]
    if not set(roles) & set(ENDS):
        raise ValueError(f"scheme 'fixup' finds no residual branch in {model.architecture}")
    inner, gain = 3 if "mlp.gate" in roles else 2, model.activation
    convolutions = _convolutions(model)
    together = connected(depths(model)) is not None
    totals = _branches(model)

    def factor(part: Part, matrices: int) -> float:
        place = stack_and_layer(part)
        count = num_branches(model, part) if place is None else totals.get(place[0], 1)
        if convolutions or together:
            count = sum(totals.values())
        return power(max(count, 1), Fraction(-1, 2 * matrices - 2))

    def mlp(part: Part) -> Initializer:
        return scaled(he_normal(gain), factor(part, inner))

    def attention(part: Part) -> Initializer:
        return scaled(glorot_uniform(), factor(part, 4))

    def convolution(part: Part) -> Initializer:
        return scaled(he_normal("relu"), factor(part, convolutions[_block(part.name)]))

    return {
        **weights(he_normal(gain)),
        "embedding": he_normal(1.0),
        "attention": attention,
        "mlp": mlp,
        "conv.branch": convolution,
        "head.transform": he_normal(gain),
        "head.pooler": he_normal(gain),
        **dict.fromkeys(("head", *ENDS), Constant(0.0)),
    }


def fixup_notes(model: Model) -> list[str]:
    """Say what the weights cannot do."""
    told = [
        "fixup needs more than weights: a scalar multiplier in each branch, scalar biases before"
        " its layers, and no norms"
    ]
    if (head := tied_head(model)) is not None:
        told.append(f"fixup starts from a head of zeros, but {head} is tied to the embedding")
    return told


def base_of(option: str, value: Any) -> str:
    """Read the scheme that another one starts from."""
    from fanin.schemes.text import read

    if not isinstance(value, str):
        raise TypeError(f"{option} must be a scheme, got {value!r}")
    return str(read(value))


@options(base=base_of)
def zero_residual(model: Model, base: str = "auto") -> Rules:
    """The scheme `base`, but what ends a residual branch is zero: every block is the identity.

    The last projection of each branch (Goyal et al. 2017, section 5.1, for the idea; Zhang et al.
    2019, section 2), or, where the branch of a convolutional network ends in a norm, that norm's
    scale and not the convolution, which would have no gradient then (`zero_init_residual` of
    torchvision).
    """
    from fanin import schemes

    roles = {part.role for tensor in model.tensors for part in tensor.parts}
    ends = {"norm.scale.last"} & roles or set(ENDS) & roles
    if "norm.scale.last" in roles:
        ends |= set(BRANCH_ENDS) & roles
    if not ends:
        raise ValueError(f"scheme 'zero_residual' finds no residual branch in {model.architecture}")
    return {**schemes.rules(base, model), **dict.fromkeys(ends, Constant(0.0))}


def zero_residual_notes(model: Model, base: str = "auto") -> list[str]:
    """Return the notes of the base."""
    from fanin import schemes

    return schemes.notes(base, model)


def zero_residual_learning_rates(model: Model, base: str = "auto") -> dict[str, float]:
    """Return the learning rates of the base."""
    from fanin import schemes

    return schemes.learning_rates(base, model)


def _branches(model: Model) -> dict[str, int]:
    """The residual branches of each stack: one a block where nothing says more."""
    counts: dict[str, set[object]] = {}
    known: dict[str, int] = {}
    for tensor in model.tensors:
        for part in tensor.parts:
            place = stack_and_layer(part)
            if place is None or part.role not in ENDS:
                continue
            if part.branches is not None:
                known[place[0]] = part.branches
            name = tensor.name if part.role != "mlp.out" else f"{place[1]}.mlp"  # experts are one
            counts.setdefault(place[0], set()).add(name)
    return {stack: known.get(stack, len(names)) for stack, names in counts.items()}


def _convolutions(model: Model) -> dict[str, int]:
    """How many convolutions the branch of each block has, by the block's name."""
    counts: dict[str, int] = {}
    for tensor in model.tensors:
        if tensor.role in ("conv.branch", "conv.out"):
            counts[_block(tensor.name)] = counts.get(_block(tensor.name), 0) + 1
    return counts


def _block(name: str) -> str:
    """The name of a block: all up to the last number between dots."""
    return re.sub(r"^(.*\.\d+)\..*$", r"\1", name)
