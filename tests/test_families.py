"""Families give the tensors that transformers writes: names, shapes, dtypes, order and ties.

Three oracles: files written by `save_pretrained` (tests/data/hf_names), the published parameter
counts, and the installed transformers, whose model is built on the meta device from the same config
with each field halved, doubled, unset or switched.
"""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassClassValidationError
from safetensors import safe_open
from torch import nn

from family_configs import COUNTS, KEEPS_A_HEAD, MORE_COUNTS, TINY, sizes_changed, switches
from fanin import families
from fanin.checkpoint import write
from fanin.families import FAMILIES
from fanin.initializers import Constant
from fanin.plan import make_plan
from fanin.rules import initializer_of

DATA = Path(__file__).parent / "data" / "hf_names"
ITEM_BITS = {"float32": "F32", "bfloat16": "BF16"}

REFUSED = (ValueError, TypeError, StrictDataclassClassValidationError)
"""What transformers raises for fields that do not go together."""

ARCHITECTURES = [
    (model_type, architecture)
    for model_type, family in FAMILIES.items()
    for architecture in family.architectures
]


def config_of(model_type, architecture, **fields):
    return {"model_type": model_type, "architectures": [architecture], **TINY[model_type], **fields}


def transformers_model(raw, device="meta"):
    config = transformers.AutoConfig.for_model(**deepcopy(raw))  # it changes parts of them
    with torch.device(device):
        model = getattr(transformers, raw["architectures"][0])._from_config(
            config, dtype=config.dtype
        )
    untied = raw.get("tie_word_embeddings") is False
    if raw["model_type"] in KEEPS_A_HEAD and untied and hasattr(model, "lm_head"):
        model.lm_head.weight = nn.Parameter(torch.randn_like(model.shared.weight))
    return model


def transformers_tensors(model):
    """Name, shape and dtype of each stored tensor; of those that are one, the one tied to."""
    state = model.state_dict(keep_vars=True)
    aliases = {
        alias
        for alias, name in model.all_tied_weights_keys.items()
        if alias in state and state[alias] is state[name]
    }
    return [
        (name, tuple(tensor.shape), str(tensor.dtype)[6:])
        for name, tensor in state.items()
        if name not in aliases
    ]


def our_tensors(model):
    return [(t.name, t.shape, t.dtype or model.dtype) for t in model.tensors]


def check(raw):
    try:
        theirs = transformers_model(raw)
    except REFUSED:
        with pytest.raises(ValueError, match=r"^config\.json: "):
            families.build(raw)
        return
    ours = families.build(raw).in_module()
    assert our_tensors(ours) == transformers_tensors(theirs)
    stored = {name: id(value) for name, value in theirs.state_dict(keep_vars=True).items()}
    assert set(stored) == {tensor.name for tensor in ours.tensors} | set(ours.tied)
    assert all(stored[alias] == stored[name] for alias, name in ours.tied.items())


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.tsv")))
def test_tensors_of_a_saved_file(name):
    rows = [line.split("\t") for line in (DATA / f"{name}.tsv").read_text().splitlines()[1:]]
    raw = json.loads((DATA / f"{name}.config.json").read_text())
    model = families.build(raw)
    ours = {
        name: (ITEM_BITS[dtype], ",".join(map(str, shape)))
        for name, shape, dtype in our_tensors(model)
    }
    assert ours == {name: (dtype, shape) for name, dtype, shape, _ in rows}
    check(raw)


@pytest.mark.parametrize(("preset", "count"), COUNTS.items())
def test_published_parameter_count(preset, count):
    assert families.load(preset).num_parameters == count


@pytest.mark.parametrize("name", MORE_COUNTS)
def test_published_parameter_count_without_a_preset(name):
    model_type, architecture, fields, count = MORE_COUNTS[name]
    raw = {"model_type": model_type, "architectures": [architecture], **fields}
    assert families.build(raw).num_parameters == count


@pytest.mark.parametrize("preset", COUNTS)
def test_preset_equals_transformers(preset):
    check(families.load(preset).raw)


@pytest.mark.parametrize(("model_type", "architecture"), ARCHITECTURES)
@pytest.mark.parametrize("change", ["half", "double", "unset"])
def test_sizes_changed(model_type, architecture, change):
    for fields in sizes_changed(model_type, change):
        check({"model_type": model_type, "architectures": [architecture], **fields})


@pytest.mark.parametrize(
    ("model_type", "architecture", "switch"),
    [(*each, switch) for each in ARCHITECTURES for switch in switches(each[0])],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_switches(model_type, architecture, switch):
    raw = config_of(model_type, architecture, **switch)
    if "n_embd" in switch and model_type != "gpt2":
        raw["hidden_size"] = 64
    if model_type == "falcon":
        raw.pop("head_dim", None)  # transformers has it as a property, which no file sets
    check(raw)


@pytest.mark.parametrize(("model_type", "architecture"), ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
def test_saved_file(model_type, architecture, tied, tmp_path):
    raw = config_of(model_type, architecture, tie_word_embeddings=tied, dtype="bfloat16")
    transformers_model(raw, "cpu").save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        saved = {
            name: (tuple(file.get_slice(name).get_shape()), file.get_slice(name).get_dtype())
            for name in file.keys()  # noqa: SIM118 (not a mapping)
        }
    ours = {
        name: (shape, ITEM_BITS[dtype]) for name, shape, dtype in our_tensors(families.build(raw))
    }
    assert ours == saved


def test_only_a_model_type_is_the_default_model_of_transformers():
    for model_type, family in FAMILIES.items():
        model = families.build({"model_type": model_type})
        assert model.architecture == next(iter(family.architectures))
        check({"model_type": model_type, "architectures": [model.architecture]})


def test_transformers_keeps_the_head_of_t5_that_is_stored(tmp_path):
    raw = config_of("t5", "T5ForConditionalGeneration", tie_word_embeddings=False)
    write(make_plan(families.build(raw), seed=3), tmp_path)
    loaded, told = transformers.T5ForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not loaded.config.scale_decoder_outputs
    assert loaded.lm_head.weight is not loaded.shared.weight
    assert 0.9 < loaded.shared.weight.std() < 1.1
    assert loaded.lm_head.weight.std().item() == pytest.approx(24**-0.5, rel=0.1)
    assert loaded.encoder.embed_tokens.weight is loaded.shared.weight


FUSED = {
    "gpt_neox": "attention.query_key_value",
    "bloom": "self_attention.query_key_value",
    "falcon": "self_attention.query_key_value",
}


def label(part):
    return part.name.partition("#")[2]


def parts_of(model, name):
    tensor = next(t for t in model.tensors if t.name == name)
    return [
        (part.name, part.role, part.shape, part.layout, part.tensor_start) for part in tensor.parts
    ]


def test_fused_tensors_of_phi3_are_matrices_of_their_own():
    model = families.build({"model_type": "phi3", **TINY["phi3"]})
    at = "model.layers.1."
    assert parts_of(model, f"{at}self_attn.qkv_proj.weight") == [
        (f"{at}self_attn.qkv_proj.weight#query", "attention.query", (128, 128), "oi", (0, 0)),
        (f"{at}self_attn.qkv_proj.weight#key", "attention.key", (32, 128), "oi", (128, 0)),
        (f"{at}self_attn.qkv_proj.weight#value", "attention.value", (32, 128), "oi", (160, 0)),
    ]
    assert parts_of(model, f"{at}mlp.gate_up_proj.weight") == [
        (f"{at}mlp.gate_up_proj.weight#gate", "mlp.gate", (48, 128), "oi", (0, 0)),
        (f"{at}mlp.gate_up_proj.weight#up", "mlp.in", (48, 128), "oi", (48, 0)),
    ]


HEADS = {  # fields, and how the module itself takes the rows of the tensor apart
    "gpt_neox": ({}, lambda rows: rows.view(8, 3, 16, 128).unbind(1)),
    "bloom": ({}, lambda rows: rows.view(4, 3, 16, 64).unbind(1)),
    "falcon": ({}, lambda rows: rows.split([1136, 284, 284])),
    "falcon, 2 groups": (
        {"new_decoder_architecture": True},
        lambda rows: rows.view(2, 4, 284, 1136).split([2, 1, 1], dim=1),
    ),
    "falcon, 4 groups": ({"multi_query": False}, lambda rows: rows.view(4, 3, 284, 1136).unbind(1)),
}


@pytest.mark.parametrize("case", HEADS)
def test_rows_of_fused_heads_are_those_of_three_matrices(case):
    model_type, (fields, take_apart) = case.partition(",")[0], HEADS[case]
    raw = {"model_type": model_type, **TINY[model_type], **fields, "bias": True}
    model = families.build(raw)
    for kind in ("weight", "bias"):
        tensor = next(t for t in model.tensors if t.name.endswith(f"1.{FUSED[model_type]}.{kind}"))
        whole = torch.zeros(tensor.shape)
        filled = torch.zeros(tensor.shape)
        matrices = {}
        for part in tensor.parts:
            matrix = matrices.setdefault(part.name, torch.randn(part.shape))
            assert matrix.shape == part.shape
            assert part.role == ("bias" if kind == "bias" else f"attention.{label(part)}")
            assert part.fan_in == (tensor.parts[0].fan_in if kind == "bias" else None)
            to, size = part.tensor_start[0], part.extent[0]
            whole[to : to + size] = matrix[part.start[0] : part.start[0] + size]
            filled[to : to + size] += 1
        assert (filled == 1).all()
        assert [name.rpartition("#")[2] for name in matrices] == ["query", "key", "value"]
        columns = whole if kind == "weight" else whole[:, None].expand(-1, model.hidden_size)
        for ours, theirs in zip(matrices.values(), take_apart(columns.contiguous()), strict=True):
            expected = theirs.reshape(-1, model.hidden_size)
            assert torch.equal(
                ours if kind == "weight" else ours[:, None], expected[:, : ours[0].numel()]
            )


def test_number_of_heads_changes_no_value(tmp_path):
    matrices = []
    for heads in (1, 8):
        raw = {"model_type": "gpt_neox", **TINY["gpt_neox"], "num_attention_heads": heads}
        write(make_plan(families.build(raw), seed=3), tmp_path / str(heads))
        with safe_open(tmp_path / str(heads) / "model.safetensors", "pt") as file:
            rows = file.get_tensor("gpt_neox.layers.1.attention.query_key_value.weight")
        matrices.append(rows.view(heads, 3, 128 // heads, 128).transpose(0, 1).reshape(3, 128, 128))
    assert torch.equal(*matrices)


def test_head_of_gpt_neox_is_stored_under_its_older_name():
    model = families.build({"model_type": "gpt_neox", **TINY["gpt_neox"]})
    head = model.in_module().tensors[-1]
    assert (model.tensors[-1].name, head.name) == ("embed_out.weight", "lm_head.weight")
    assert head.parts == model.tensors[-1].parts
    tied = families.build(
        {"model_type": "gpt_neox", **TINY["gpt_neox"], "tie_word_embeddings": True}
    )
    assert tied.tied == {"embed_out.weight": "gpt_neox.embed_in.weight"}
    assert tied.in_module().tied == {"lm_head.weight": "gpt_neox.embed_in.weight"}


@pytest.mark.parametrize("model_type", ["gemma", "gemma2", "gemma3_text"])
def test_norms_of_gemma_start_at_zero(model_type):
    model = families.build({"model_type": model_type, **TINY[model_type]})
    norms = [part for t in model.tensors for part in t.parts if "norm" in part.name]
    assert len(norms) == 1 + 2 * {"gemma": 2, "gemma2": 4, "gemma3_text": 6}[model_type]
    assert {initializer_of(model.auto, part) for part in norms} == {Constant(0.0)}


def test_fused_tensor_is_three_matrices():
    model = families.build({"model_type": "gpt2", **TINY["gpt2"]})
    weight, bias = (
        next(t for t in model.tensors if t.name == f"transformer.h.1.attn.c_attn.{kind}")
        for kind in ("weight", "bias")
    )
    assert [part.name.rpartition("#")[2] for part in weight.parts] == ["query", "key", "value"]
    assert (weight.role, weight.layout) == ("attention.query+key+value", "io")
    assert [part.tensor_start for part in weight.parts] == [(0, 0), (0, 48), (0, 96)]
    assert {(part.shape, part.layout, part.layer) for part in weight.parts} == {((48, 48), "io", 1)}
    assert [part.tensor_start for part in bias.parts] == [(0,), (48,), (96,)]
    assert {(part.shape, part.role, part.fan_in) for part in bias.parts} == {((48,), "bias", 48)}


@pytest.mark.parametrize(
    ("token", "pieces"),
    [
        (0, [("embedding.padding", 0, 1), ("embedding", 1, 96)]),
        (7, [("embedding", 0, 7), ("embedding.padding", 7, 8), ("embedding", 8, 96)]),
        (-1, [("embedding", 0, 95), ("embedding.padding", 95, 96)]),
        (None, [("embedding", 0, 96)]),
    ],
)
def test_padding_row_is_a_part_of_the_same_matrix(token, pieces):
    model = families.build({"model_type": "llama", **TINY["llama"], "pad_token_id": token})
    table = model.tensors[0]
    assert [
        (part.role, part.start[0], part.start[0] + part.extent[0]) for part in table.parts
    ] == pieces
    assert {part.name for part in table.parts} == {"model.embed_tokens.weight"}
    assert {part.shape for part in table.parts} == {(96, 128)}
    assert all(part.tensor_start == part.start for part in table.parts)
    assert table.role == "embedding"
