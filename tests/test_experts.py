"""Families with experts: each expert is a matrix of its own, wherever files and modules put it.

Oracles: where transformers' own file lies in its module (tests/data/hf_names, found by value), and
transformers itself, which converts a checkpoint to the module's layout and back.
"""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import fanin
from family_configs import TINY
from fanin import families
from fanin.checkpoint import write
from fanin.checkpoint.verify import verify
from fanin.families.experts import expert_stack
from fanin.model import Tensor
from fanin.plan import checks as plan_checks
from fanin.plan import make_plan
from fanin.torch import initialize_

DATA = Path(__file__).parent / "data" / "hf_names"
WITH_EXPERTS = [
    "deepseek_v2",
    "deepseek_v3",
    "gpt_oss",
    "mixtral",
    "olmoe",
    "qwen2_moe",
    "qwen3_moe",
]


def raw_of(model_type, **fields):
    return {"model_type": model_type, **TINY[model_type], **fields}


def tensor_of(model, name):
    return next(tensor for tensor in model.tensors if tensor.name == name)


def module_of(raw):
    model = families.build(raw)
    config = transformers.AutoConfig.for_model(**raw)
    return getattr(transformers, model.architecture)._from_config(config, dtype=config.dtype)


def slices(part):
    places = zip(part.tensor_start, part.tensor_step, part.extent, strict=True)
    return tuple(slice(at, at + step * (n - 1) + 1, step) for at, step, n in places)


# --- where experts lie


@pytest.mark.parametrize("name", ["DeepSeek-V3", "Mixtral-8x7B-v0.1", "Qwen3-30B-A3B"])
def test_pieces_of_the_modules_tensors_are_where_transformers_has_them(name):
    model = families.build(json.loads((DATA / f"{name}.config.json").read_text())).in_module()
    found = {}
    for tensor in model.tensors:
        for part in tensor.parts:
            begin, end = part.tensor_start, part.extent
            index = (begin[0], (begin[1], begin[1] + end[1])) if len(begin) == 3 else None
            found[part.name] = (tensor.name, index, tensor.shape)
    for line in (DATA / f"{name}.tsv").read_text().splitlines()[1:]:
        stored, _, shape, place = line.split("\t")
        if "self_attn.kv_" in stored and "proj" in stored:  # two matrices in one tensor
            assert stored == place
            continue
        where, index, whole = found[stored]
        bracket = re.fullmatch(r"([^[]+)(?:\[(\d+)(?:, (\d+):(\d+))?\])?", place)
        assert where == bracket[1]
        if bracket[2] is not None:
            rows = (int(bracket[3]), int(bracket[4])) if bracket[3] else (0, whole[1])
            assert index == (int(bracket[2]), rows)
            assert whole[2] == int(shape.split(",")[1])


def test_experts_of_mixtral_are_keyed_by_their_names_in_files():
    model = families.build(raw_of("mixtral"))
    stored = tensor_of(model, "model.layers.1.block_sparse_moe.experts.2.w3.weight")
    (part,) = stored.parts
    assert (part.name, part.role, part.shape, part.layout) == (
        stored.name,
        "mlp.in",
        (48, 128),
        "oi",
    )
    whole = tensor_of(model.in_module(), "model.layers.1.mlp.experts.gate_up_proj")
    assert whole.shape == (4, 96, 128)
    assert whole.role == "mlp.gate+in"
    assert [part.name.split("experts.")[1] for part in whole.parts] == [
        f"{expert}.{half}.weight" for expert in range(4) for half in ("w1", "w3")
    ]
    assert whole.parts[5].name == stored.name
    assert (whole.parts[5].shape, whole.parts[5].layout) == ((1, 48, 128), "boi")
    assert whole.parts[5].tensor_start == (2, 48, 0)
    down = tensor_of(model.in_module(), "model.layers.1.mlp.experts.down_proj")
    assert [part.role for part in down.parts] == ["mlp.out"] * 4


def test_columns_of_gpt_oss_alternate():
    model = families.build(raw_of("gpt_oss"))
    assert model.in_module().tensors == model.tensors
    at = "model.layers.0.mlp.experts.gate_up_proj"
    weight, bias = tensor_of(model, at), tensor_of(model, f"{at}_bias")
    part = weight.parts[5]
    assert (weight.shape, bias.shape) == ((4, 128, 96), (4, 96))
    assert (part.name, part.role, part.shape) == (f"{at}#2.up", "mlp.in", (1, 128, 48))
    assert (part.layout, part.tensor_start, part.tensor_step) == ("bio", (2, 0, 1), (1, 1, 2))
    part = bias.parts[4]
    assert (part.name, part.role, part.shape, part.fan_in) == (
        f"{at}_bias#2.gate",
        "bias",
        (1, 48),
        128,
    )
    assert (part.tensor_start, part.tensor_step) == (((2, 0)), (1, 2))
    assert tensor_of(model, "model.layers.0.mlp.router.bias").role == "bias.router"


def test_experts_of_gpt_oss_compute_with_the_gate_and_the_up_of_their_names():
    module = module_of(raw_of("gpt_oss"))
    initialize_(module, "xavier", seed=3)
    experts = module.model.layers[1].mlp.experts
    name = "model.layers.1.mlp.experts.gate_up_proj#3"
    options = {"shape": (128, 48), "layout": "io", "seed": 3}
    x = torch.randn(5, 128)
    gate, up = (
        x @ torch.from_numpy(fanin.xavier_uniform(**options, name=f"{name}.{half}"))
        for half in ("gate", "up")
    )
    computed = experts._apply_gate(x @ experts.gate_up_proj[3])
    expected = gate * torch.sigmoid(1.702 * gate) * (up + 1)  # nothing is as large as the limit
    torch.testing.assert_close(computed, expected)


def test_latent_attention_computes_with_the_matrices_of_their_names():
    module = module_of(raw_of("deepseek_v3"))
    initialize_(module, "xavier", seed=3)
    attention = module.model.layers[1].self_attn

    def matrix(name, *shape):
        full = f"model.layers.1.self_attn.{name}"
        return torch.from_numpy(fanin.xavier_uniform(shape, seed=3, name=full))

    down, rotary = attention.kv_a_proj_with_mqa.weight.split([12, 4])
    assert torch.equal(down, matrix("kv_a_proj_with_mqa.weight#latent", 12, 128))
    assert torch.equal(rotary, matrix("kv_a_proj_with_mqa.weight#key", 4, 128))
    latent = torch.randn(1, 1, 5, 12)
    keys, values = attention.expand_kv(latent, torch.zeros(1, 1, 5, 4))
    for label, size, computed in (("key", 6, keys[..., :6]), ("value", 10, values)):
        own = matrix(f"kv_b_proj.weight#{label}", 6 * size, 12)
        expected = (latent[0] @ own.T).view(5, 6, size).transpose(0, 1)
        torch.testing.assert_close(computed[0], expected)


def test_buffers_are_stored_and_counted_as_no_parameters(tmp_path):
    raw = raw_of("deepseek_v3", dtype="bfloat16")
    model = families.build(raw)
    bias = tensor_of(model, "model.layers.3.mlp.gate.e_score_correction_bias")
    assert (bias.buffer, bias.dtype, bias.role) == (True, "float32", "bias.correction")
    module = module_of(raw)
    assert model.num_parameters == sum(p.numel() for p in module.parameters())
    assert sum(tensor.numel for tensor in model.tensors) == model.num_parameters + 2 * 8
    rules = {"*.e_score_correction_bias": "normal(std=2)"}
    plan = make_plan(model, overrides=rules)
    write(plan, tmp_path, max_shard_size=20_000)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["metadata"]
    assert index == {"total_parameters": model.num_parameters, "total_size": plan.num_bytes}
    report = initialize_(module, overrides=rules)
    assert "model.layers.2.mlp.gate.e_score_correction_bias" in report.named("filled")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype="float32")
    gates = [each.model.layers[2].mlp.gate for each in (module, loaded)]
    assert torch.equal(gates[0].e_score_correction_bias, gates[1].e_score_correction_bias)
    assert gates[0].e_score_correction_bias.std() > 0.5


# --- one model, two layouts


@pytest.mark.parametrize("model_type", WITH_EXPERTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_converting_between_the_layouts_changes_no_value(model_type, dtype, tmp_path):
    raw = raw_of(model_type, dtype=dtype, tie_word_embeddings=dtype == "float32")
    model = families.build(raw)
    options = {"scheme": "xavier", "seed": 11, "overrides": {"*bias*": "normal(std=1)"}}
    if model_type in ("mixtral", "olmoe", "deepseek_v2", "qwen3_moe"):
        options["overrides"] = {"*norm.weight": "normal(std=1)"}
    write(make_plan(model, **options), tmp_path / "stored")
    write(make_plan(model.in_module(), **options), tmp_path / "stacked")
    stored, stacked = (
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name)
        for name in ("stored", "stacked")
    )
    stored.save_pretrained(tmp_path / "to stacked", save_original_format=False)
    module = module_of(raw)  # one that was loaded would be saved as it was
    module.load_state_dict(stacked.state_dict())
    module.save_pretrained(tmp_path / "to stored")
    for ours, theirs in (("stored", "to stored"), ("stacked", "to stacked")):
        one, other = (load_file(tmp_path / f / "model.safetensors") for f in (ours, theirs))
        assert one.keys() == other.keys()
        assert {name: value.dtype for name, value in one.items()} == {
            name: value.dtype for name, value in other.items()
        }
        assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize("model_type", ["mixtral", "gpt_oss"])
@pytest.mark.parametrize("scheme", ["xavier", "orthogonal"])
def test_shards_of_experts_are_parts_of_the_whole(model_type, scheme, tmp_path):
    plan = make_plan(families.build(raw_of(model_type)).in_module(), scheme=scheme, seed=5)
    for entry in plan.entries:
        if ".experts." not in entry.tensor.name:
            continue
        whole = np.empty(entry.tensor.shape, np.float32)
        entry.fill(whole, seed=5)
        for ranks in (2, 4):
            shards = []
            for rank in range(ranks):
                size = 4 // ranks
                box = (slice(rank * size, (rank + 1) * size), *map(slice, entry.tensor.shape[1:]))
                box = tuple(slice(s.start or 0, s.stop) for s in box)
                shard = np.empty((size, *entry.tensor.shape[1:]), np.float32)
                entry.fill(shard, seed=5, box=box)
                shards.append(shard)
            assert np.array_equal(np.concatenate(shards), whole)


# --- a rule for every expert's matrix


@pytest.mark.parametrize("model_type", WITH_EXPERTS)
@pytest.mark.parametrize("scheme", ["xavier", "he", "torch_default", "orthogonal", "gpt2"])
def test_every_scheme_sees_the_fans_of_one_expert(model_type, scheme):
    for model in (
        families.build(raw_of(model_type)),
        families.build(raw_of(model_type)).in_module(),
    ):
        plan = make_plan(model, scheme=scheme)
        dense = {}
        for entry in plan.entries:
            for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
                if ".experts." not in part.name or part.layout is None:
                    continue
                inner = 24 if "moe_intermediate_size" in TINY[model_type] else 48
                out = part.role == "mlp.out"
                fans = fanin.fans(part.shape, part.layout)
                assert fans == ((inner, 128) if out else (128, inner))
                std = initializer.standard_deviation(part.shape, part.layout)
                dense.setdefault(part.role, set()).add(std)
        assert set(dense) == {"mlp.gate", "mlp.in", "mlp.out"}
        assert all(len(stds) == 1 for stds in dense.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_orthogonal_experts_in_a_file(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("fanin.checkpoint.banded_tensors.BAND_BYTES", 20_000)  # less than an expert
    raw = raw_of("gpt_oss", dtype=dtype, hidden_act="relu")
    plan = make_plan(families.build(raw), scheme="orthogonal", seed=2)
    write(plan, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    for entry in plan.entries:
        if ".experts." not in entry.tensor.name:
            continue
        value = stored[entry.tensor.name]
        whole = torch.empty(value.shape, dtype=value.dtype)
        entry.fill(whole, seed=2)
        assert torch.equal(whole, value)
        if value.ndim == 2:
            continue
        for part in entry.tensor.parts:
            matrix = value[slices(part)][0].double().numpy()
            scale = np.sqrt(2) if part.role == "mlp.gate" else 1
            values = np.linalg.svd(matrix, compute_uv=False)
            np.testing.assert_allclose(values, scale, rtol=1e-5 if dtype == "float32" else 2e-2)


# --- plans of many parts


def test_the_cover_of_a_stack_does_not_take_all_pairs(monkeypatch):
    compared = []
    disjoint = plan_checks._disjoint
    monkeypatch.setattr(
        plan_checks, "_disjoint", lambda *ranges: compared.append(0) or disjoint(*ranges)
    )
    count = 3000
    roles = ("mlp.gate", "mlp.in")
    stack = expert_stack("w", (count, 4, 6), roles, "bio", outputs=2, interleaved=True)
    plan_checks.check_cover(stack)
    assert len(compared) <= 3 * count
    parts = (*stack.parts[:-2], *stack.parts[:2])
    with pytest.raises(ValueError, match="share elements"):
        plan_checks.check_cover(Tensor.of("w", (count, 4, 6), parts))
    with pytest.raises(ValueError, match=f"cover {24 * count - 12} of its {24 * count}"):
        plan_checks.check_cover(Tensor.of("w", (count, 4, 6), stack.parts[:-1]))


# --- fields


@pytest.mark.parametrize(
    ("raw", "billions"),
    [  # of the model cards, where these are the defaults of the model type
        ({"model_type": "gpt_oss"}, 116.83),
        ({"model_type": "gpt_oss", "num_local_experts": 32, "num_hidden_layers": 24}, 20.91),
        ({"model_type": "qwen2_moe"}, 14.32),
        ({"model_type": "olmoe", "intermediate_size": 1024}, 6.92),
    ],
)
def test_published_sizes_that_follow_from_defaults(raw, billions):
    assert round(families.build(raw).num_parameters / 1e9, 2) == billions


@pytest.mark.parametrize("model_type", ["qwen2_moe", "qwen3_moe"])
def test_without_experts_every_layer_is_dense(model_type):
    raw = raw_of(model_type, num_experts=0)
    model, module = families.build(raw), module_of(raw)
    theirs = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    assert {tensor.name: tensor.shape for tensor in model.tensors} == theirs
    assert not any("expert" in name for name in theirs)


@pytest.mark.parametrize(
    ("model_type", "fields", "message"),
    [
        ("mixtral", {"num_local_experts": 0}, "num_local_experts is 0: must be a whole number fr"),
        ("olmoe", {"num_experts": None}, "num_experts is null: must be a whole number from 1"),
        ("qwen2_moe", {"num_experts": -1}, "num_experts is -1: must be a whole number from 0"),
        ("qwen3_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step is 0: must be"),
        ("qwen3_moe", {"mlp_only_layers": 3}, "mlp_only_layers is 3: must be null or a list"),
        ("qwen3_moe", {"mlp_only_layers": ["1"]}, r'mlp_only_layers is \["1"\]: must be null or a'),
        ("deepseek_v3", {"first_k_dense_replace": None}, "first_k_dense_replace is null: must be"),
        (
            "deepseek_v2",
            {"num_attention_heads": 3},
            "hidden_size is 128: must be a multiple of num",
        ),
        ("gpt_oss", {"num_key_value_heads": 5}, "num_attention_heads is 32: must be a multiple"),
    ],
)
def test_fields_that_make_no_model(model_type, fields, message):
    with pytest.raises(ValueError, match=message):
        families.build(raw_of(model_type, **fields))


@pytest.mark.parametrize(
    ("model_type", "fields"),
    [
        ("deepseek_v2", {"n_shared_experts": 0, "mlp_bias": True}),
        ("deepseek_v3", {"n_shared_experts": 0}),
        ("qwen2_moe", {"shared_expert_intermediate_size": 0}),
    ],
)
def test_shared_experts_of_no_width(model_type, fields, tmp_path):
    raw = raw_of(model_type, **fields)
    plan = make_plan(families.build(raw), scheme="torch_default")
    empty = [entry for entry in plan.entries if entry.tensor.numel == 0]
    assert {entry.initializer for entry in empty} == {"no elements"}
    write(plan, tmp_path)
    assert verify(tmp_path).ok
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch: initializing such a tensor is a no-op
        module = module_of(raw)
        module.save_pretrained(tmp_path / "theirs")
        report = initialize_(module, "torch_default")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    theirs, ours = (load_file(p / "model.safetensors") for p in (tmp_path / "theirs", tmp_path))
    shapes = [{name: t.shape for name, t in file.items()} for file in (theirs, ours)]
    assert shapes[0] == shapes[1]
    assert {entry.tensor.name for entry in empty} <= set(report.named("kept"))
    pairs = module.parameters(), loaded.parameters()
    assert all(torch.equal(a, b) for a, b in zip(*pairs, strict=True))
