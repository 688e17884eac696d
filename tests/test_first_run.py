"""What the README's first command writes: GPT-2, as transformers loads it."""

import math

import pytest
import torch
import transformers
from safetensors import safe_open

from fanin import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "gpt2-init"
    command = ["init", "gpt2", str(folder), "--dtype", "bfloat16", "--seed", "0"]
    assert cli.main(command) == 0
    return folder


def test_transformers_loads_it(folder):
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(loading[what] for what in ("missing_keys", "unexpected_keys"))
    assert not any(loading[what] for what in ("mismatched_keys", "error_msgs"))
    assert model.dtype == torch.bfloat16
    assert model.lm_head.weight is model.transformer.wte.weight
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808
    tokens = torch.tensor([[464, 3290, 318]])
    with torch.no_grad():
        loss = model(tokens, labels=tokens).loss
    assert abs(float(loss) - math.log(50257)) < 1.0


def test_every_tensor_measures_what_it_should(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        names = set(file.keys())
        assert "lm_head.weight" not in names
        assert len(names) == 148
        for name in names:
            values = file.get_tensor(name).double()
            if name.endswith(".bias"):
                assert not values.any(), name
            elif ".ln_" in name:
                assert (values == 1).all(), name
            else:
                residual = name.endswith("c_proj.weight")
                std = 0.02 / math.sqrt(24) if residual else 0.02
                # five standard errors, and what rounding to bfloat16 adds to the variance
                error = 5 / math.sqrt(2 * values.numel()) + 1e-5
                assert abs(float(values.std()) / std - 1) < error, name
                assert abs(float(values.mean())) < 5 * std / math.sqrt(values.numel()), name
