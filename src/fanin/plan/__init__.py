"""Plans: every tensor of a model with its initializers, checked before anything is filled.

`make_plan` makes them. Beside it are what decides over a scheme (`overrides`, `tensor_dtypes`, both
also from a file: `rules_file`), float8 with scales (`quantization`), the checks that refuse
(`checks`), how a plan is shown (`part_texts`, `comparison`) and how it is filled (`joined_parts`).
What looks wrong in a recipe, but may be meant, is the business of `fanin.diagnose`.
"""

from fanin.plan.plan import Entry, Plan, make_plan

__all__ = ["Entry", "Plan", "make_plan"]
