"""Two plans of one model side by side: how much larger each tensor starts in one of them.

Adam moves a weight by about the learning rate whatever its size, and SGD by a gradient that shrinks
where other weights grow. So a tensor that starts twice as large is moved half as far relative to
itself: with another initialization the learning rate that was tuned is another one, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fanin.moments import mean_square

if TYPE_CHECKING:
    from fanin.plan import Entry, Plan

__all__ = ["ADVICE", "rms", "rms_ratios"]

ADVICE = (
    "another initialization without another learning rate is another effective step: tune them"
    " together"
)


def rms_ratios(plan: Plan, other: Plan) -> dict[str, float]:
    """Return each tensor's RMS over what it is in another plan of the same model, by name.

    Parameters
    ----------
    plan, other : Plan

    Returns
    -------
    dict of str to float
        1 where both are 0; infinite where only the other is.

    Raises
    ------
    ValueError
        The plans are of models with different tensors.

    Examples
    --------
    >>> from fanin import families
    >>> from fanin.plan import make_plan
    >>> model = families.load("gpt2")
    >>> ratios = rms_ratios(make_plan(model, scheme="bert"), make_plan(model, scheme="gpt2"))
    >>> ratios["transformer.wte.weight"], round(ratios["transformer.h.0.mlp.c_proj.weight"], 3)
    (1.0, 4.899)
    """
    own, others = ({each.tensor.name: rms(each) for each in p.entries} for p in (plan, other))
    if own.keys() != others.keys():
        name = sorted(own.keys() ^ others.keys())[0]
        raise ValueError(f"the plans are of different models: only one of them has {name}")
    return {name: _ratio(size, others[name]) for name, size in own.items()}


def rms(entry: Entry) -> float:
    """Return the root mean square of a tensor's elements, without a padding row."""
    squares = [
        (part.numel, mean_square(initializer, part.shape, part.layout, part.groups))
        for part, initializer in entry.visible
    ]
    total = sum(size for size, _ in squares)
    if len({square for _, square in squares}) == 1:  # exactly, whatever the sizes
        return math.sqrt(squares[0][1])
    return math.sqrt(math.fsum(size / total * square for size, square in squares))


def _ratio(one: float, other: float) -> float:
    if one == other:
        return 1.0
    return one / other if other > 0.0 else math.inf
