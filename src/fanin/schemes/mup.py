"""mup: the maximal update parametrization (Yang et al. 2022, "Tensor Programs V").

Of the equivalent tables of that paper this is table 3, which needs no multipliers in the model's
code: the standard deviations of the weights and the learning rates do it all, but for attention.
A head that is tied to the embedding is the exception: the table has another row for each, so the
tensor is an input weight, and the logits need the multiplier of table 8.
"""

from __future__ import annotations

import math

from fanin.initializers import Initializer, Normal
from fanin.model import PADDING, Model, Part
from fanin.rules import Rules, weights
from fanin.schemes.heads import tied_head
from fanin.schemes.options import options, positive, width
from fanin.schemes.small import width_of

__all__ = ["learning_rates", "mup", "notes"]

INPUT, HIDDEN, OUTPUT = "input", "hidden", "output"


@options(base_width=width, std=positive)
def mup(model: Model, base_width: int = 256, std: float = 0.02) -> Rules:
    """N(0, std^2) at the base width; m times as wide, hidden std / sqrt(m), output std / m.

    Yang et al. 2022, table 3, for Adam: input weights (embeddings, and convolutions whose inputs
    are not the model's features) keep their std and learning rate; hidden weights have the variance
    over m and the learning rate over m; output weights (head, router) the variance over m^2 and the
    learning rate over m; biases and norms are as at the base width. m is hidden_size / base_width,
    and 256 the width of the paper's proxy of GPT-3. All other widths are taken to grow with it.

    `learning_rates` and `notes` say what an optimizer and the model's code must do.
    """
    m = width_of(model, "mup") / base_width
    stds = {INPUT: std, HIDDEN: std / math.sqrt(m), OUTPUT: std / m}

    def matrix(part: Part) -> Initializer:
        return Normal(std=stds[_kind(part, model)])

    return {**weights(matrix), "router": matrix}


def learning_rates(model: Model, base_width: int = 256, std: float = 0.02) -> dict[str, float]:
    """Return the factor of Adam's learning rate for each tensor, by name."""
    m = width_of(model, "mup") / base_width
    rates = {INPUT: 1.0, HIDDEN: 1.0 / m, OUTPUT: 1.0 / m}
    return {
        tensor.name: rates[_kind(tensor.parts[-1], model)]
        for tensor in model.tensors
        if tensor.parts
    }


def notes(model: Model, base_width: int = 256, std: float = 0.02) -> list[str]:
    """Say what the weights cannot do."""
    m = width_of(model, "mup") / base_width
    told = [
        f"mup is table 3 of Tensor Programs V, {m:.6g} times the base width of {base_width}; the"
        " weights cannot set attention's scale: it must be 1/head_dim in place of"
        " 1/sqrt(head_dim), times a constant that makes both equal at the base width"
    ]
    if (head := tied_head(model)) is not None:
        told.append(
            f"{head} is tied to the embedding, which table 3 does not allow: multiply the logits by"
            f" {1.0 / m:.6g}, as in table 8"
        )
    return told


def _kind(part: Part, model: Model) -> str:
    """Which row of the table a part is in; vectors are in that of the input weights."""
    role = part.role
    if part.layout is None or role == PADDING or role.startswith(("embedding", "sinusoids")):
        return INPUT
    if role == "head" or role.startswith("router"):
        return OUTPUT
    if role.startswith("conv"):
        inputs = math.prod(
            size for size, letter in zip(part.shape, part.layout, strict=True) if letter == "i"
        )
        return HIDDEN if inputs == model.hidden_size else INPUT
    return HIDDEN
