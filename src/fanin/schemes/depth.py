"""How deep a model is, block by block: what the schemes of depth count.

A stack is the blocks whose names begin the same: `transformer.h`, `encoder.block`. Powers are taken
by decimal arithmetic, whose last digit no C library decides.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

from fanin.model import Model, Part

__all__ = ["connected", "depths", "num_branches", "power", "stack_and_layer"]


def stack_and_layer(part: Part) -> tuple[str, int] | None:
    """Return the stack of a part's block and the block's number; None outside of blocks.

    Examples
    --------
    >>> shape = (2, 2), "oi", (0, 0), (2, 2), (0, 0), (1, 1)
    >>> stack_and_layer(Part("decoder.block.3.layer.0.SelfAttention.q.weight", "x", *shape))
    ('decoder.block', 3)
    """
    words = part.name.split(".")
    for place, word in enumerate(words):
        if word.isascii() and word.isdigit():
            return ".".join(words[:place]), int(word) if part.layer is None else part.layer
    return None


def depths(model: Model) -> dict[str, int]:
    """Return the number of blocks of each stack."""
    found: dict[str, int] = {}
    for tensor in model.tensors:
        for part in tensor.parts:
            if (place := stack_and_layer(part)) is not None:
                found[place[0]] = max(found.get(place[0], 0), place[1] + 1)
    return found


def connected(stacks: dict[str, int]) -> dict[str, int] | None:
    """Return the depths of an encoder and the decoder that reads it, by these names, or None."""
    pair: dict[str, int] = {
        str(kind): depth
        for kind in ("encoder", "decoder")
        for stack, depth in stacks.items()
        if kind in stack.split(".")
    }
    return pair if len(pair) == 2 else None


def num_branches(model: Model, part: Part) -> int:
    """Return the number of residual branches of the stack that a part belongs to."""
    return part.branches or 2 * model.num_layers


@lru_cache(maxsize=256)
def power(base: int, exponent: Fraction) -> float:
    """Return `base ** exponent`, rounded once.

    Examples
    --------
    >>> power(16, Fraction(-1, 4))
    0.5
    """
    context = Context(prec=40)
    quotient = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return float(context.power(Decimal(base), quotient))
