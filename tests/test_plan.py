"""Plans: every element once, every part a rule, overrides that apply, draws that never meet."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fanin import families, initializers
from fanin.initializers import Constant, Normal
from fanin.model import Part, Tensor
from fanin.plan import checks as plan_checks
from fanin.plan import make_plan
from fanin.streams import PERIOD

GPT2 = {"model_type": "gpt2", "vocab_size": 50, "n_embd": 8, "n_layer": 2, "n_head": 2}
BERT = {
    "model_type": "bert",
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "pad_token_id": 3,
}


def plan_of(config=GPT2, *overrides, **options):
    return make_plan(families.build(config), overrides=overrides, **options)


def entry(plan, name):
    return next(entry for entry in plan.entries if entry.tensor.name == name)


def with_tensors(*tensors):
    return replace(families.build(GPT2), tensors=tensors, tied={})


def piece(shape=(4, 6), at=(0, 0), step=(1, 1), extent=None, name="w", role="mlp.in"):
    extent = extent or shape
    return Part(name, role, shape, "oi", (0, 0), extent, at, step)


# --- each element exactly once


@pytest.mark.parametrize(
    "parts",
    [
        [piece()],
        [piece((4, 2), (0, 0)), piece((4, 4), (0, 2))],
        [piece((4, 3), (0, 0), (1, 2)), piece((4, 3), (0, 1), (1, 2))],  # alternating columns
        [piece((2, 6), (0, 0), (2, 1)), piece((2, 6), (1, 0), (2, 1))],
        [piece((2, 3), (row, 3 * half), (2, 1)) for row in (0, 1) for half in (0, 1)],
        [piece((4, 2), (0, first), (1, 3)) for first in (0, 1, 2)],
    ],
)
def test_parts_that_cover_a_tensor(parts):
    plan_checks.check_cover(Tensor.of("w", (4, 6), tuple(parts)))


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "cover 0 of its 24"),
        ([piece((4, 5))], "cover 20 of its 24"),
        ([piece((4, 3)), piece((4, 3), (0, 2))], "share elements"),
        ([piece((4, 3), (0, 0), (1, 2)), piece((4, 3), (0, 0), (1, 2))], "share elements"),
        ([piece((4, 3), (0, 0), (1, 2)), piece((4, 3), (0, 3))], "share elements"),
        ([piece(), piece((1, 1))], "share elements"),
        ([piece((4, 7))], "outside the tensor"),
        ([piece((4, 6), (0, 1))], "outside the tensor"),
        ([piece((4, 6), (-1, 0))], "outside the tensor"),
        ([piece((4, 4), (0, 0), (1, 2))], "outside the tensor"),
        ([piece((4, 6), (0, 0), (1, 0))], "outside the tensor"),
        ([piece((4, 5), extent=(4, 6))], "outside its matrix"),
        ([piece((24,), (0,), (1,))], "as many axes"),
    ],
)
def test_parts_that_do_not(parts, problem):
    with pytest.raises(ValueError, match=f"^w: .*{problem}"):
        make_plan(with_tensors(Tensor("w", (4, 6), "mlp.in", "oi", tuple(parts))))


def test_ranges_meet_or_do_not():
    lattices = [
        range(first, first + step * size, step)
        for first, step, size in itertools.product(range(4), range(1, 7), range(1, 5))
    ]
    for one, other in itertools.product(lattices, repeat=2):
        assert plan_checks._disjoint(one, other) == (not set(one) & set(other)), (one, other)


@pytest.mark.parametrize("preset", ["gpt2", "bert-base-uncased", "llama-3.1-8b", "qwen2.5-0.5b"])
def test_models_are_covered(preset):
    plan = make_plan(families.load(preset))
    assert plan.num_parameters == sum(
        part.numel for entry in plan.entries for part in entry.tensor.parts
    )


def test_a_part_without_a_rule_is_an_error():
    tensor = Tensor.of("w", (4, 6), (piece(role="route"),))
    with pytest.raises(ValueError, match=r"^w: scheme 'gpt2' has no rule for 'route'"):
        make_plan(with_tensors(tensor), scheme="gpt2")
    plan = make_plan(with_tensors(tensor), scheme="gpt2", overrides=[("w", "zeros")])
    assert plan.entries[0].initializer == "zeros"


def test_parts_without_a_rule_are_all_in_the_error():
    names = [f"layers.{layer}.{name}" for layer in range(3) for name in ("x", "y.gate")]
    tensors = [Tensor.of(n, (4, 6), (piece(name=n, role=n[9:]),)) for n in names]
    with pytest.raises(ValueError, match="has no rule") as error:
        make_plan(with_tensors(*tensors), scheme="gpt2")
    assert str(error.value) == (
        "layers.*.x (3 of them): scheme 'gpt2' has no rule for 'x';"
        " layers.*.y.gate (3 of them): scheme 'gpt2' has no rule for 'y.gate';"
        " set one, as in --set 'PATTERN=INITIALIZER'"
    )


# --- overrides


def test_override_of_a_tensor_reaches_all_its_parts():
    plan = plan_of(GPT2, ("*.c_attn.weight", "normal(std=0.01)"))
    for layer in (0, 1):
        changed = entry(plan, f"transformer.h.{layer}.attn.c_attn.weight")
        assert changed.initializers == 3 * (Normal(std=0.01),)
    assert entry(plan, "transformer.h.0.attn.c_attn.bias").initializers == 3 * (Constant(0.0),)
    assert plan.overrides == (("*.c_attn.weight", Normal(std=0.01)),)


def test_override_of_one_part():
    plan = plan_of(GPT2, ("*.c_attn.weight#query", Normal(std=0.01)))
    changed = entry(plan, "transformer.h.1.attn.c_attn.weight")
    assert changed.initializers == (Normal(std=0.01), Normal(std=0.02), Normal(std=0.02))
    assert changed.initializer == (
        "query=normal(std=0.01), key=normal(std=0.02), value=normal(std=0.02)"
    )
    assert changed.std == pytest.approx(math.sqrt((0.01**2 + 2 * 0.02**2) / 3))


def test_the_last_override_wins():
    first, last = ("*.wpe.weight", "zeros"), ("transformer.wpe.*", "ones")
    assert entry(plan_of(GPT2, first, last), "transformer.wpe.weight").initializer == "ones"
    assert entry(plan_of(GPT2, last, first), "transformer.wpe.weight").initializer == "zeros"


def test_a_padding_row_stays_zero():
    name = "bert.embeddings.word_embeddings.weight"
    changed = entry(plan_of(BERT, ("*.word_embeddings.*", "normal(std=0.5)")), name)
    assert changed.initializers == (Normal(std=0.5), Constant(0.0), Normal(std=0.5))
    assert (changed.initializer, changed.std) == ("normal(std=0.5)", 0.5)


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("*.c_porj.weight", "transformer.h.*.attn.c_proj.weight"),
        ("transformer.h.0.mlp.c_fc.wieght", "transformer.h.*.mlp.c_fc.weight"),
        ("*.C_FC.weight", ""),
        ("*.c_attn.weight#queries", "transformer.h.*.attn.c_attn.weight#query"),
        ("wte", "transformer.wte.weight"),
        ("", ""),
    ],
)
def test_an_override_that_matches_nothing(pattern, nearest):
    with pytest.raises(ValueError, match="matches no tensor and no part; near: ") as error:
        plan_of(GPT2, (pattern, "zeros"))
    assert repr(pattern) in str(error.value)
    assert nearest in str(error.value)


@pytest.mark.parametrize("pattern", ["lm_head.weight", "lm_head.*", "*head*"])
def test_an_override_of_a_tied_name(pattern):
    with pytest.raises(ValueError, match=r"lm_head\.weight is tied to transformer\.wte\.weight"):
        plan_of(GPT2, (pattern, "zeros"))
    untied = plan_of(GPT2 | {"tie_word_embeddings": False}, (pattern, "zeros"))
    assert entry(untied, "lm_head.weight").initializer == "zeros"


def test_an_override_of_both_tied_names():
    plan = plan_of(GPT2, ("*.wte.weight", "zeros"), ("*.weight", "ones"))
    assert entry(plan, "transformer.wte.weight").initializer == "ones"


def test_tied_names_cannot_have_different_initializers():
    everything, words = ("*.weight", "ones"), ("*.wte.weight", "zeros")
    with pytest.raises(ValueError, match="is tied to") as error:
        plan_of(GPT2, everything, words)
    assert str(error.value) == (
        "lm_head.weight is tied to transformer.wte.weight, but the override '*.weight' sets it to"
        " ones and '*.wte.weight' sets transformer.wte.weight to zeros: use one initializer for"
        " both, or set tie_word_embeddings to false in the config"
    )
    plan_of(GPT2, everything, ("*.wte.weight", "ones"))
    untied = plan_of(GPT2 | {"tie_word_embeddings": False}, everything, words)
    assert entry(untied, "lm_head.weight").initializer == "ones"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normal(std=-1)", "override 'transformer.wpe.weight': .*std must be"),
        ("gaussian", "override 'transformer.wpe.weight': .*gaussian"),
        ("normal(std=1e39)", r"transformer\.wpe\.weight: normal\(std=1e\+39\): .*too large"),
        ("constant(1e-60)", r"transformer\.wpe\.weight: constant"),
    ],
)
def test_an_override_that_cannot_be(text, message):
    with pytest.raises(ValueError, match=message):
        plan_of(GPT2, ("transformer.wpe.weight", text))


def test_an_override_needs_a_pattern_in_text():
    with pytest.raises(TypeError, match="pattern of an override must be a string, got 3"):
        plan_of(GPT2, (3, "zeros"))


def test_fans_of_a_vector_are_refused_with_its_name():
    with pytest.raises(ValueError, match=r"^transformer\.ln_f\.bias: .* this is a vector"):
        plan_of(GPT2, ("*.ln_f.bias", "he_normal"))


def test_fans_follow_the_layout():
    name = "transformer.h.0.mlp.c_fc.weight"  # (in, out) = (8, 32)
    plan = plan_of(GPT2, (name, "variance_scaling(mode=fan_in)"))
    assert entry(plan, name).std == pytest.approx(1 / math.sqrt(8))


# --- draws


def test_overlapping_draws_are_refused(monkeypatch):
    # Starts less than 100 draws apart: the longer intervals reach the next one.
    monkeypatch.setattr(plan_checks, "position", lambda seed, name: seed + len(name))
    with pytest.raises(ValueError, match=r"seed 5 gives .* overlapping draws: choose another seed"):
        plan_of(GPT2, seed=5)


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        (100, 112, False),  # 24 normals of float32: 12 draws
        (100, 111, True),
        (100, 100, True),
        (111, 100, True),
        (0, PERIOD - 12, False),  # the end of the cycle is its beginning
        (0, PERIOD - 11, True),
    ],
)
def test_intervals_on_the_cycle(monkeypatch, first, second, overlap):
    starts = {"a": first, "b": second}
    monkeypatch.setattr(plan_checks, "position", lambda seed, name: starts[name])
    model = with_tensors(*(Tensor.of(name, (4, 6), (piece(name=name),)) for name in starts))
    if overlap:
        with pytest.raises(ValueError, match="overlapping draws"):
            make_plan(model)
    else:
        make_plan(model)
    assert make_plan(model, overrides=[("a", "ones")]).entries  # constants draw nothing


def test_parts_of_one_matrix_share_its_draws():
    regions = [
        Part("w", "mlp.in", (4, 6), "oi", (row, 0), (2, 6), (row, 0), (1, 1)) for row in (0, 2)
    ]
    assert make_plan(with_tensors(Tensor.of("w", (4, 6), tuple(regions)))).num_parameters == 24


def test_two_tensors_do_not_share_a_name():
    tensors = [Tensor.of(name, (4, 6), (piece(name="w"),)) for name in ("a", "b")]
    with pytest.raises(ValueError, match="a and b share the name 'w'"):
        make_plan(with_tensors(*tensors))


def test_a_tensor_beyond_every_disk():
    huge = {"vocab_size": 2**31 - 1, "n_embd": 2**31 - 2}
    with pytest.raises(ValueError, match=r"wte\.weight: .* larger than 2\*\*63 bytes"):
        plan_of(GPT2 | huge, dtype="float64")


# --- options and output


def test_defaults():
    plan = plan_of(GPT2 | {"torch_dtype": "bfloat16"})
    assert (plan.scheme, plan.seed, plan.dtype, plan.overrides) == ("auto", 0, "bfloat16", ())
    assert plan_of(GPT2 | {"torch_dtype": "bfloat16"}, dtype="float16").dtype == "float16"
    assert plan_of(GPT2).dtype == "float32"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "gpt3"}, "unknown scheme 'gpt3'; did you mean 'gpt2'"),
        ({"dtype": "float33"}, "float33"),
        ({"seed": -1}, "seed must be from 0"),
        ({"seed": 2**64}, "seed must be from 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        plan_of(GPT2, **options)


def test_a_tensor_may_force_its_dtype():
    forced = replace(Tensor.of("w", (4, 6), (piece(),)), dtype="float32")
    plan = make_plan(with_tensors(forced), dtype="bfloat16")
    assert (plan.entries[0].dtype, plan.num_bytes, plan.dtype) == ("float32", 96, "bfloat16")


def test_json():
    plan = plan_of(BERT, dtype="bfloat16")
    content = json.loads(json.dumps(plan.to_json()))
    assert set(content) == {"num_parameters", "num_bytes", "tensors", "warnings"}
    assert content["warnings"] == []
    assert content["num_parameters"] == sum(
        math.prod(tensor["shape"]) for tensor in content["tensors"]
    )
    assert content["num_bytes"] == 2 * content["num_parameters"]
    assert content["tensors"][1] == {
        "name": "bert.embeddings.position_embeddings.weight",
        "shape": [512, 8],
        "dtype": "bfloat16",
        "role": "embedding.position",
        "layout": "oi",
        "initializer": "normal(std=0.02)",
        "std": 0.02,
    }
    words = content["tensors"][0]
    assert (words["role"], words["initializer"], words["std"]) == (
        "embedding",
        "normal(std=0.02)",
        0.02,
    )
    assert [(part["role"], part["start"], part["shape"]) for part in words["parts"]] == [
        ("embedding", [0, 0], [3, 8]),
        ("embedding.padding", [3, 0], [1, 8]),
        ("embedding", [4, 0], [46, 8]),
    ]


def test_json_says_every_tensor_in_text_that_parses():
    for tensor in plan_of(GPT2, scheme="torch_default").to_json()["tensors"]:
        parsed = initializers.parse(tensor["initializer"])
        shape = tensor["parts"][0]["shape"] if "parts" in tensor else tensor["shape"]
        assert parsed.standard_deviation(shape, tensor["layout"]) == tensor["std"]


def test_table():
    lines = plan_of(BERT, dtype="bfloat16", seed=7).table().splitlines()
    plan = plan_of(BERT)
    assert [line.split()[0] for line in lines[2 : 2 + len(plan.entries)]] == [
        entry.tensor.name for entry in plan.entries
    ]
    assert lines[2].split() == [
        "bert.embeddings.word_embeddings.weight",
        "50",
        "x",
        "8",
        "bfloat16",
        "embedding",
        "normal(std=0.02)",
        "0.02",
    ]
    assert lines[2 + len(plan.entries) :] == [
        "bert.embeddings.word_embeddings.weight has a padding row, number 3: zeros",
        "cls.predictions.decoder.weight is tied to bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias is tied to cls.predictions.bias",
        f"BertForMaskedLM, scheme auto, seed 7: {plan.num_parameters:,} parameters in"
        f" {len(plan.entries)} tensors, {2 * plan.num_parameters:,} bytes",
    ]


@pytest.mark.parametrize(
    ("config", "name", "box"),
    [
        (GPT2, "transformer.h.1.attn.c_attn.weight", (slice(1, 7), slice(5, 21))),
        (GPT2, "transformer.h.0.attn.c_attn.bias", (slice(7, 9),)),
        (BERT, "bert.embeddings.word_embeddings.weight", (slice(2, 5), slice(3, 8))),
    ],
)
def test_a_box_of_a_tensor_is_filled_as_in_the_whole(config, name, box):
    plan = plan_of(config, scheme="torch_default")
    planned = entry(plan, name)
    whole = np.full(planned.tensor.shape, np.nan, np.float32)
    planned.fill(whole, seed=5)
    assert np.isfinite(whole).all()
    cut = np.full_like(whole[box], np.nan)
    planned.fill(cut, seed=5, box=box)
    assert np.array_equal(cut, whole[box])


def test_what_of_a_part_lies_in_a_box():
    """Against the indices themselves, for a part of every third row and every second column."""
    lattice = Part("w", "x", (9, 9), "oi", (2, 1), (4, 5), (1, 0), (3, 2))
    tensor = np.full((14, 11), -1)
    numbers = np.arange(81).reshape(9, 9)
    tensor[1:13:3, 0:10:2] = numbers[2:6, 1:6]
    for low, high in [(0, 14), (1, 2), (2, 4), (5, 11), (11, 14)]:
        box = (slice(low, high), slice(low // 2, min(high, 11)))
        expected, found = tensor[box], np.full_like(tensor[box], -1)
        if (inside := lattice.within(box)) is not None:
            region, places = inside
            found[places] = numbers[region]
        assert np.array_equal(found, expected), box
