"""Every scheme has a rule for every part of every model, and adjustments apply where they can."""

import math

import numpy as np
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


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_a_module_gets_the_bits_of_the_plan(scheme):
    import transformers

    import fanin.torch

    config = {**TINY["qwen3"], "model_type": "qwen3"}
    module = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**config)
    )
    report = fanin.torch.initialize_(module, scheme, seed=3)
    plan = make_plan(families.build(config), scheme=scheme, seed=3)
    assert report.notes == tuple(plan.notes)
    for entry in plan.entries[:12] + plan.entries[-2:]:
        expected = np.empty(entry.tensor.shape, np.float32)
        entry.fill(expected, seed=3)
        assert np.array_equal(module.state_dict()[entry.tensor.name].numpy(), expected)


def test_schemes_of_trees():
    import jax

    import fanin.jax
    from fanin.jax.parameters import SCHEMES_OF_TREES

    def leaf(*shape):
        return jax.ShapeDtypeStruct(shape, "float32")

    tree = {
        "dense": {"kernel": leaf(6, 4), "bias": leaf(4)},
        "conv": {"kernel": leaf(3, 3, 6, 4)},
        "embed": {"embedding": leaf(9, 4)},
        "norm": {"scale": leaf(4), "bias": leaf(4)},
    }
    for scheme in SCHEMES_OF_TREES:
        filled = jax.tree.leaves(fanin.jax.initialize(tree, scheme))
        assert all(np.isfinite(array).all() for array in filled)
    for scheme in set(schemes.SCHEMES) - set(SCHEMES_OF_TREES):
        with pytest.raises(ValueError, match=f"scheme '{scheme}' needs more than a tree says"):
            fanin.jax.make_plan(tree, scheme)
