"""float8 with scales: the names and shapes that servers read, checked against transformers' own."""

import json

import ml_dtypes
import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open

from family_configs import TINY
from fanin import families
from fanin.checkpoint import write
from fanin.checkpoint.verify import verify
from fanin.cli import main
from fanin.plan import make_plan

LLAMA = {"model_type": "llama", "torch_dtype": "bfloat16", **TINY["llama"]}
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 48]}


def plan(config, **options):
    return make_plan(families.build(config), scheme="dummy", dtype="float8_e4m3fn", **options)


def stored(made):
    return {entry.tensor.name: (entry.tensor.shape, entry.dtype) for entry in made.entries}


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "olmo2", "phi3"])
def test_blocks_are_those_of_transformers(model_type):
    from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear

    raw = {"model_type": model_type, **TINY[model_type], "quantization_config": BLOCKS}
    config = transformers.AutoConfig.for_model(
        **{k: v for k, v in raw.items() if k != "quantization_config"}
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        settings = transformers.FineGrainedFP8Config(weight_block_size=(32, 48))
        replace_with_fp8_linear(model, ["lm_head"], settings, pre_quantized=True)
    theirs = {
        name: (tuple(value.shape), str(value.dtype).removeprefix("torch."))
        for name, value in model.state_dict().items()
    }
    assert stored(plan(raw | {"dtype": "bfloat16"})) == theirs


def test_one_scale_a_tensor(tmp_path):
    made = plan(LLAMA)
    write(made, tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert len(tensors) == 21 + 14
    down = tensors["model.layers.1.mlp.down_proj.weight"]
    scale = tensors["model.layers.1.mlp.down_proj.weight_scale"]
    assert (down.dtype, scale.dtype, scale.tolist()) == (torch.float8_e4m3fn, torch.float32, [1.0])
    for name, tensor in tensors.items():
        values = tensor.float()
        assert torch.isfinite(values).all(), name
        assert (values != 0).float().mean() > 0.9, name  # small, but not all rounded to zero
        assert abs(values).max() <= (1 if "norm" in name or "scale" in name else 1 / 64), name
    assert tensors["lm_head.weight"].dtype == tensors["model.norm.weight"].dtype == torch.bfloat16
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert config["quantization_config"] == {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "ignored_layers": ["model.embed_tokens", "lm_head"],
    }
    assert made.num_parameters == families.build(LLAMA).num_parameters
    assert verify(tmp_path).problems == ()
    assert all(file.kept for file in write(made, tmp_path).files)


def test_what_the_config_asks_for():
    static = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["o_proj"]}
    found = stored(plan(LLAMA | {"quantization_config": static}))
    at = "model.layers.0.self_attn."
    assert found[f"{at}q_proj.input_scale"] == ((1,), "float32")
    assert found[f"{at}o_proj.weight"][1] == "bfloat16"
    assert f"{at}o_proj.weight_scale" not in found


def test_experts_and_routers_of_deepseek():
    made = stored(make_plan(families.load("deepseek-v3"), scheme="dummy", dtype="float8_e4m3fn"))
    at = "model.layers.60.mlp."
    assert made[f"{at}experts.255.down_proj.weight"] == ((7168, 2048), "float8_e4m3fn")
    assert made[f"{at}experts.255.down_proj.weight_scale_inv"] == ((56, 16), "float32")
    assert made[f"{at}gate.weight"] == ((256, 7168), "float32")
    assert made["model.embed_tokens.weight"][1] == "bfloat16"


def test_dummy_in_other_dtypes_is_plain():
    made = make_plan(families.build(LLAMA), scheme="dummy")
    assert {entry.dtype for entry in made.entries} == {"bfloat16"}
    plain = make_plan(families.build(LLAMA), scheme="llama", dtype="float8_e4m3fn")
    assert {entry.dtype for entry in plain.entries} == {"float8_e4m3fn"}
    weight = made.entries[1].initializers[0].fill(np.empty(999, ml_dtypes.bfloat16), seed=0)
    assert 0.98 / 64 < abs(weight.astype(float)).max() <= 1 / 64


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"quant_method": "mxfp4"}, "quant_method 'mxfp4'.*'fp8' only: remove it"),
        ("fp8", "quant_method 'fp8'"),
        (BLOCKS | {"weight_block_size": [0, 8]}, r"weight_block_size \[0, 8\], which must be two"),
        (BLOCKS | {"scale_fmt": "ue8m0"}, "scale_fmt 'ue8m0'; 'float' is written"),
        (BLOCKS | {"activation_scheme": "none"}, "activation_scheme 'none'; 'dynamic' is written"),
    ],
)
def test_other_quantizations_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        plan(LLAMA | {"quantization_config": fields})


def test_a_float8_and_a_model_that_cannot(capsys, tmp_path):
    with pytest.raises(ValueError, match="are float8_e4m3fn, not float8_e5m2"):
        make_plan(families.build(LLAMA), scheme="dummy", dtype="float8_e5m2")
    command = ["init", "gpt2", str(tmp_path), "--scheme", "dummy", "--dtype", "float8_e4m3fn"]
    assert main(command) == 1
    assert "GPT2LMHeadModel has no linear layers, stored (out, in)" in capsys.readouterr().err
