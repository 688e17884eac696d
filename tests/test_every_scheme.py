"""Every scheme has a rule for every part of every model, and adjustments apply where they can."""

import math

import pytest

from family_configs import TINY
from fanin import families, schemes
from fanin.plan import make_plan


@pytest.mark.parametrize("model_type", TINY)
def test_every_scheme_covers_every_model(model_type):
    model = families.build({**TINY[model_type], "model_type": model_type})
    for scheme in schemes.SCHEMES:
        plan = make_plan(model, scheme=scheme)
        assert plan.num_parameters == model.num_parameters
        assert all(math.isfinite(entry.std) for entry in plan.entries)
        padding = [entry.initializers for entry in plan.entries if "padding" in entry.tensor.role]
        assert all(init.std == 0 for inits in padding for init in inits)


@pytest.mark.parametrize("model_type", TINY)
def test_adjustments_of_the_scheme_auto(model_type):
    model = families.build({**TINY[model_type], "model_type": model_type})
    roles = {part.role for tensor in model.tensors for part in tensor.parts}
    options = {"embedding_std=1/sqrt(d)": "embedding", "qk_scale=0.5": "attention.query"}
    told = [option for option, role in options.items() if role in roles]
    assert make_plan(model, scheme=f"auto({', '.join(told)})").entries
