"""What is wrong with a recipe, before it is used: checks of a plan, and predictions from it.

A check is a file: it takes the groups of a plan's parts (and the model, or a prediction) and yields
findings. `findings` is the only list of them. To add one, write its file and put it there.

| kind | what is wrong |
|---|---|
| `gain` | a gain made for another activation |
| `fans` | a number that fits swapped fans, or fans over experts or taps |
| `truncation` | bounds that cut nothing, or shrink the standard deviation |
| `symmetry` | constant weight matrices |
| `norm` | norms that do not start as the identity |
| `residual_scaling` | 24 blocks or more whose branches are not scaled down |
| `tied_embedding`, `first_loss` | a first loss far above ln(vocabulary) |
| `depth` | an embedding that drowns, branches that vanish |

What a user chose is a warning. What the published code of an architecture does, under the scheme
`auto`, is a note, unless its first loss shows that it cannot be meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanin.diagnose import (
    depth,
    fans,
    first_loss,
    gain,
    growth,
    norms,
    residual,
    symmetry,
    truncation,
)
from fanin.diagnose.finding import Finding
from fanin.diagnose.groups import groups_of

if TYPE_CHECKING:
    from fanin.diagnose.first_loss import FirstLoss
    from fanin.plan import Plan
    from fanin.plan.overrides import Override

__all__ = ["Finding", "findings", "predict_depth", "predict_first_loss"]

predict_depth = depth.predict


def predict_first_loss(plan: Plan) -> FirstLoss | None:
    """Return the first loss of a plan's model, or None if it has no vocabulary or is not known.

    Examples
    --------
    >>> from fanin import families
    >>> from fanin.plan import make_plan
    >>> first = predict_first_loss(make_plan(families.load("gpt2")))
    >>> round(first.loss, 2), round(first.uniform, 2)
    (10.98, 10.82)
    """
    groups, model = groups_of(plan), plan.model
    return first_loss.predict(groups, model, depth.of_groups(groups, model))


def findings(plan: Plan, overrides: tuple[Override, ...] | None = None) -> tuple[Finding, ...]:
    """Return what the checks find, warnings first.

    Parameters
    ----------
    plan : Plan
    overrides : tuple of (pattern, initializer), optional
        Those that the user chose. Default: all that the plan has.
    """
    groups, model = groups_of(plan, overrides), plan.model
    predicted = depth.of_groups(groups, model)
    first = first_loss.predict(groups, model, predicted)
    found = [
        *first_loss.check(groups, model, first),
        *gain.check(groups, model),
        *fans.check(groups),
        *symmetry.check(groups),
        *norms.check(groups),
        *truncation.check(groups),
        *growth.check(groups, predicted),
        *residual.check(groups, model),
    ]
    return tuple(sorted(found, key=lambda finding: finding.level == "note"))
