"""What is wrong with a recipe: each check on plans that have the fault, and on some that do not."""

import json
import math
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
import torch
import transformers

import fanin
import fanin.jax
from fanin import cli, families, schemes
from fanin.diagnose import predict_first_loss
from fanin.model import Part, Tensor
from fanin.plan import make_plan
from fanin.torch import initialize_

PRESETS = sorted(path.stem for path in (Path(fanin.__file__).parent / "presets").glob("*.json"))
GPT2 = {"model_type": "gpt2", "vocab_size": 500, "n_embd": 64, "n_layer": 3, "n_head": 4}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 500,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GEMMA = LLAMA | {"model_type": "gemma", "head_dim": 16}
MAMBA = {"model_type": "mamba", "vocab_size": 500, "hidden_size": 64, "num_hidden_layers": 3}
MIXTRAL = LLAMA | {"model_type": "mixtral", "num_local_experts": 4}


def plan_of(config, *overrides, **options):
    return make_plan(families.build(config), overrides=overrides, **options)


def found(plan, kind, level="warning"):
    return [each for each in plan.findings if (each.kind, each.level) == (kind, level)]


def only(plan, kind, level="warning"):
    (finding,) = found(plan, kind, level)
    return finding


# --- no false alarms


@pytest.mark.parametrize("preset", PRESETS)
def test_published_recipes_have_no_warnings(preset):
    assert make_plan(families.load(preset)).warnings == ()


@pytest.mark.parametrize(
    "scheme", ["gpt2", "megatron", "olmo", "wang", "deepnorm", "bert", "llama", "small_init"]
)
@pytest.mark.parametrize("config", [GPT2, LLAMA], ids=lambda c: c["model_type"])
def test_schemes_have_no_warnings_on_models_of_few_blocks(scheme, config):
    assert plan_of(config, scheme=scheme).warnings == ()


def test_every_scheme_can_be_checked():
    for scheme in schemes.SCHEMES:
        for config in (GPT2, LLAMA, MIXTRAL):
            for finding in plan_of(config, scheme=scheme).findings:
                assert json.loads(json.dumps(finding.to_json()))["message"] == str(finding)


# --- gains


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_the_gain_of_relu_under_one_that_saturates(activation):
    config = GPT2 | {"activation_function": activation}
    warning = only(plan_of(config, ("*.c_fc.weight", "he_normal")), "gain")
    assert (warning.tensors, warning.count) == (("transformer.h.*.mlp.c_fc.weight",), 3)
    assert warning.value == math.sqrt(2)
    assert f"He's gain sqrt(2), made for ReLU, feeds {activation}" in warning.problem
    assert warning.remedy == "use xavier_normal or lecun_normal"
    for right in ("xavier_normal", "lecun_normal", "normal(std=0.02)", "he_normal(gain=1)"):
        assert not found(plan_of(config, ("*.c_fc.weight", right)), "gain")


def test_gains_written_as_numbers():
    width = families.build(GPT2).hidden_size
    number = f"{math.sqrt(2 / width):.4g}"
    tanh, relu = (GPT2 | {"activation_function": name} for name in ("tanh", "relu"))
    pattern = "*.c_fc.weight"
    warning = only(plan_of(tanh, (pattern, f"normal(std={number})")), "gain")
    assert warning.remedy == "use xavier_normal or lecun_normal"
    assert not found(plan_of(relu, (pattern, f"normal(std={number})")), "gain")
    limit = f"{math.sqrt(3 / width):.4g}"
    warning = only(plan_of(relu, (pattern, f"uniform(low=-{limit}, high={limit})")), "gain")
    assert "gain 1 (LeCun's) feeds relu" in warning.problem
    assert warning.remedy == "use he_uniform, gain sqrt(2)"


def test_the_shares_that_are_flat():
    config = GPT2 | {"activation_function": "tanh"}
    warning = only(plan_of(config, ("*.c_fc.weight", "he_uniform")), "gain")
    assert "0.16 of its inputs lie beyond +-2, where it is flat, and 0.046 at gain 1" in str(
        warning
    )
    assert warning.remedy == "use xavier_uniform or lecun_uniform"


def test_xavier_under_relu():
    config = GPT2 | {"activation_function": "relu"}
    warning = only(plan_of(config, scheme="xavier"), "gain")
    assert warning.tensors == ("transformer.h.*.mlp.c_fc.weight",)
    assert "gain 1 (Xavier's) feeds relu, which passes half of the variance" in warning.problem
    assert warning.remedy == "use he_uniform, gain sqrt(2)"
    assert not found(plan_of(config, scheme="he"), "gain")
    assert not found(plan_of(GPT2, scheme="xavier"), "gain")  # gelu


def test_the_gate_feeds_the_activation_of_a_gated_mlp():
    config = LLAMA | {"hidden_act": "tanh"}
    assert not found(plan_of(config, ("*.up_proj.weight", "he_normal")), "gain")
    warning = only(plan_of(config, ("*_proj.weight", "he_normal")), "gain")
    assert warning.tensors == ("model.layers.*.mlp.gate_proj.weight",)


def test_the_pooler_of_bert_has_a_tanh():
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 48}
    plan = plan_of(config, ("pooler.dense.weight", "he_normal"))
    assert only(plan, "gain").tensors == ("pooler.dense.weight",)


# --- fans


@pytest.mark.parametrize(
    ("rule", "reading"),
    [
        (f"normal(std={math.sqrt(2 / 256)})", "that of he_normal with fan_in and fan_out swapped"),
        ("normal(std=0.0884)", "that of he_normal with fan_in and fan_out swapped"),
        (f"uniform(low=-{math.sqrt(3) / 16}, high={math.sqrt(3) / 16})", "that of lecun_normal"),
    ],
)
def test_swapped_fans(rule, reading):
    warning = only(plan_of(GPT2, ("*.c_fc.weight", rule)), "fans")  # (64, 256), read as (out, in)
    assert reading in warning.problem
    assert "fan_in is 64 and fan_out 256" in warning.problem
    assert "which knows the layout" in warning.remedy
    assert warning.count == 3


@pytest.mark.parametrize(
    "rule",
    [
        f"normal(std={math.sqrt(2 / 64)})",
        f"normal(std={math.sqrt(1 / 64)})",
        f"normal(std={math.sqrt(2 / 320)})",  # xavier
        "uniform(low=-0.125, high=0.125)",
        "normal(std=0.02)",
        "normal(std=0.0173)",
        "he_normal(mode=fan_out)",
    ],
)
def test_numbers_that_are_no_swapped_fans(rule):
    assert not found(plan_of(GPT2, ("*.c_fc.weight", rule)), "fans")


def test_square_matrices_cannot_be_swapped():
    rule = f"normal(std={math.sqrt(2 / 64)})"
    assert not found(plan_of(GPT2, ("*.attn.c_proj.weight", rule)), "fans")


def test_fans_over_the_experts():
    for fan, reading in ((4 * 64, "the experts counted in"), (176, "swapped")):
        rule = ("*.experts.*.w1.weight", f"normal(std={math.sqrt(2 / fan)})")
        warning = only(plan_of(MIXTRAL, rule), "fans")
        assert reading in warning.problem
        assert (warning.count, warning.tensors) == (
            12,
            ("model.layers.*.block_sparse_moe.experts.*.w1.weight",),
        )


def test_fans_of_stacked_experts_and_of_kernels():
    def plan(shape, layout, std):
        origin = (0,) * len(shape)
        part = Part("w", "conv", shape, layout, origin, shape, origin, (1,) * len(shape))
        model = replace(families.build(GPT2), tensors=(Tensor.of("w", shape, (part,)),), tied={})
        return make_plan(model, overrides=[("w", f"normal(std={std})")])

    experts, kernel = ((7, 48, 20), "boi"), ((48, 20, 3, 3), "oikk")
    for (shape, layout), fan, reading in (
        (experts, 7 * 20, "the experts counted in"),
        (experts, 48, "swapped"),
        (experts, 48 * 20, "torch.nn.init"),
        (kernel, 20, "the taps of the kernel left out"),
        (kernel, 48 * 9, "swapped"),
    ):
        warning = only(plan(shape, layout, math.sqrt(2 / fan)), "fans")
        assert reading in warning.problem, warning
    assert not found(plan(*experts, math.sqrt(2 / 20)), "fans")
    assert not found(plan(*kernel, math.sqrt(2 / 180)), "fans")


# --- truncation


@pytest.mark.filterwarnings("ignore:the absolute bounds")
def test_bounds_that_cut_nothing():
    rule = "truncated_normal(std=0.02, low=-2, high=2, bounds=absolute)"
    warning = only(plan_of(GPT2, ("*.mlp.*.weight", rule)), "truncation")
    assert warning.count == 6
    assert warning.tensors == (
        "transformer.h.*.mlp.c_fc.weight",
        "transformer.h.*.mlp.c_proj.weight",
    )
    assert warning.value == pytest.approx(100)
    assert "bounds [-2, 2] are 100 standard deviations away and cut nothing" in warning.problem
    sigma = ("*.mlp.*.weight", "truncated_normal(std=0.02, low=-9, high=9)")
    assert "[-9, 9] sigma are 9 standard" in only(plan_of(GPT2, sigma), "truncation").problem


def test_truncation_that_shrinks_the_std():
    warning = only(plan_of(GPT2, ("*.wte.*", "truncated_normal(std=0.02)")), "truncation")
    assert warning.value == pytest.approx(0.02 * 0.87962566103423978)
    assert "cut at +-2 sigma the std 0.02 becomes 0.01759" in warning.problem
    assert warning.remedy == "add keep_std=True to keep it"


@pytest.mark.parametrize(
    "rule",
    [
        "truncated_normal(std=0.02, keep_std=True)",
        "truncated_normal(std=0.02, low=-3, high=3)",
        "he_normal(truncated=True)",
        "truncated_normal(std=0.02, low=-inf, high=inf)",
    ],
)
def test_truncation_as_it_should_be(rule):
    assert not found(plan_of(GPT2, ("*.mlp.*.weight", rule)), "truncation")


# --- constants


def test_constant_matrices():
    warning = only(plan_of(GPT2, ("*.c_fc.weight", "constant(0.1)")), "symmetry")
    assert warning.value == 0.1
    assert "every element is 0.1: units that start alike learn alike" in warning.problem
    assert warning.tensors == ("transformer.h.*.mlp.c_fc.weight",)
    assert only(plan_of(GPT2, ("*.wte.weight", "zeros")), "symmetry").value == 0.0


@pytest.mark.parametrize("pattern", ["*.c_proj.weight", "*.wpe.weight", "*#query", "*.ln_1.bias"])
def test_what_may_be_zero(pattern):
    assert not found(plan_of(GPT2, (pattern, "zeros")), "symmetry")
    assert not found(plan_of(LLAMA, ("lm_head.weight", "zeros")), "symmetry")
    for config in (GPT2, MAMBA):
        assert not found(plan_of(config, scheme="zero_residual"), "symmetry")


@pytest.mark.parametrize(
    ("pattern", "count"), [("*.mlp.*.weight", 6), ("*.attn.*.weight", 12), ("*h.0.mlp.*.weight", 2)]
)
def test_zeros_in_a_row(pattern, count):
    warning = only(plan_of(GPT2, (pattern, "zeros")), "symmetry")
    assert "no gradient reaches any of them" in warning.problem
    assert warning.count == count


@pytest.mark.parametrize(
    ("config", "own"),
    [  # a token's own logit: its embedding, made an RMS of 1, times itself
        (MAMBA, 0.1 * 64),
        ({"model_type": "t5", "vocab_size": 500, "d_model": 64, "num_layers": 2}, 64**0.5),
    ],
)
def test_first_loss_of_a_tied_head_where_branches_are_zero(config, own):
    plan = plan_of(config, scheme="zero_residual")
    assert predict_first_loss(plan).own_logit == pytest.approx(own, rel=1e-3)


def test_norms_that_are_not_the_identity():
    warning = only(plan_of(GEMMA, ("*input_layernorm.weight", "ones")), "norm")
    assert "multiplies by 1 + weight: the signal is multiplied by 2" in warning.problem
    assert (warning.remedy, warning.count, warning.value) == ("use zeros", 3, 1.0)
    warning = only(plan_of(LLAMA, ("*input_layernorm.weight", "zeros")), "norm")
    assert "the signal is multiplied by 0" in warning.problem
    assert warning.remedy == "use ones"
    assert found(plan_of(GPT2, ("*.ln_1.*", "normal(std=0.02)")), "norm")
    assert not found(plan_of(LLAMA, ("*norm.weight", "ones")), "norm")
    assert not found(plan_of(GEMMA, ("*norm.weight", "zeros")), "norm")


# --- depth


def test_depth_without_residual_scaling():
    deep = GPT2 | {"n_layer": 24}
    warning = only(plan_of(deep, scheme="bert"), "residual_scaling")
    assert warning.tensors == (
        "transformer.h.*.attn.c_proj.weight",
        "transformer.h.*.mlp.c_proj.weight",
    )
    assert (warning.count, warning.value) == (48, 0.02)
    assert "not scaled down for 48 residual branches" in warning.problem
    assert "sqrt(48) = 6.93" in warning.remedy
    assert not found(plan_of(GPT2 | {"n_layer": 23}, scheme="bert"), "residual_scaling")


@pytest.mark.parametrize("scheme", ["auto", "gpt2", "megatron", "olmo", "wang", "fixup"])
def test_recipes_with_residual_scaling(scheme):
    assert not found(plan_of(GPT2 | {"n_layer": 24}, scheme=scheme), "residual_scaling")


@pytest.mark.parametrize("scheme", ["llama", "xavier", "he", "lecun", "torch_default"])
def test_recipes_without(scheme):
    assert found(plan_of(LLAMA | {"num_hidden_layers": 24}, scheme=scheme), "residual_scaling")


def test_one_of_two_branches_is_left_out():  # as where a name test misses one of two
    rule = ("*.mlp.c_proj.weight", "normal(std=0.02)")
    warning = only(plan_of(GPT2 | {"n_layer": 24}, rule), "residual_scaling")
    assert warning.tensors == ("transformer.h.*.mlp.c_proj.weight",)


def test_what_the_published_code_does_is_a_note():
    plan = make_plan(families.load("llama-3.1-8b"))
    assert only(plan, "residual_scaling", "note").count == 64
    assert plan.warnings == ()
    assert "note: model.layers.*.self_attn.o_proj.weight, model.layers" in plan.table()
    assert found(make_plan(families.load("llama-3.1-8b"), scheme="llama"), "residual_scaling")


def test_norms_at_the_end_of_branches_and_multipliers_take_care_of_depth():
    for change in (
        {"model_type": "gemma2", "head_dim": 16},
        {"model_type": "olmo2"},
        {"model_type": "granite", "residual_multiplier": 0.22},
    ):
        config = LLAMA | {"num_hidden_layers": 40} | change
        assert not found(plan_of(config, scheme="llama"), "residual_scaling"), change


def test_deep_encoders_of_images():
    vit = {"model_type": "vit", "hidden_size": 48, "num_hidden_layers": 24}
    assert only(plan_of(vit, scheme="bert"), "residual_scaling").count == 48
    note = only(plan_of(vit), "truncation", "note")
    assert "cut nothing" in note.problem
    assert plan_of(vit).warnings == ()


def test_post_norm_stacks_are_told_of_deepnorm():
    bert = {"model_type": "bert", "hidden_size": 48, "num_hidden_layers": 24}
    assert "deepnorm" in only(plan_of(bert, scheme="bert"), "residual_scaling").remedy
    assert not found(plan_of(bert, scheme="deepnorm"), "residual_scaling")


def test_an_embedding_that_drowns():
    warning = only(plan_of(GPT2, ("*.c_proj.weight", "normal(std=20)")), "depth")
    assert warning.value > 1000
    assert "the embedding to be lost in it" in warning.problem


def test_branches_that_vanish():
    warning = only(plan_of(GPT2, ("*.c_proj.weight", "normal(std=1e-6)")), "depth")
    assert 0 < warning.value < 1e-3
    assert "the blocks do next to nothing" in warning.problem


# --- the first loss


def test_embeddings_of_std_1_that_are_the_head():
    warning = only(plan_of(GPT2 | {"vocab_size": 50257}, scheme="torch_default"), "tied_embedding")
    assert warning.tensors == ("transformer.wte.weight",)
    assert "std 1 gives logits a std of 8" in warning.problem
    assert warning.value > 30
    assert "untie the head" in warning.remedy
    untied = GPT2 | {"vocab_size": 50257, "tie_word_embeddings": False}
    assert not found(plan_of(untied, scheme="torch_default"), "tied_embedding")


def test_a_head_of_std_1():
    warning = only(plan_of(LLAMA, ("lm_head.weight", "normal(std=1)")), "first_loss")
    assert warning.value == pytest.approx(8 * math.sqrt(2 * math.log(500)), rel=0.15)
    assert "where ln 500 is 6.21" in warning.problem
    assert warning.remedy == "use normal(std=0.12) or less for it"  # 1 / sqrt(64)
    assert not found(plan_of(LLAMA, ("lm_head.weight", "normal(std=0.12)")), "first_loss")


def test_what_the_code_multiplies_logits_by_counts():
    granite = LLAMA | {"model_type": "granite", "logits_scaling": 8.0, "tie_word_embeddings": False}
    assert not found(plan_of(granite, ("lm_head.weight", "normal(std=1)")), "first_loss")
    for model_type, warnings in (("t5", 0), ("umt5", 0), ("mt5", 1)):  # by 1/8, but in mT5
        plan = plan_of({"model_type": model_type, "d_model": 64, "vocab_size": 500})
        assert len(found(plan, "tied_embedding")) == warnings
    capped = LLAMA | {"model_type": "gemma2", "head_dim": 16, "final_logit_softcapping": 0.5}
    assert not found(plan_of(capped, scheme="torch_default"), "tied_embedding")


# --- where they are shown


def test_a_finding_prints_its_tensors_the_problem_and_the_remedy():
    (warning,) = plan_of(GPT2, ("*.c_fc.weight", "constant(0.1)")).warnings
    assert str(warning) == (
        "transformer.h.*.mlp.c_fc.weight (3 tensors): every element is 0.1: units that start alike"
        " learn alike; use a random initializer"
    )
    assert warning.to_json() == {
        "kind": "symmetry",
        "level": "warning",
        "tensors": ["transformer.h.*.mlp.c_fc.weight"],
        "count": 3,
        "value": 0.1,
        "problem": "every element is 0.1: units that start alike learn alike",
        "remedy": "use a random initializer",
        "message": str(warning),
    }


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(GPT2))
    return str(path)


@pytest.mark.parametrize("command", ["plan", "init"])
def test_warnings_stand_on_stderr_before_anything_else(config, tmp_path, capsys, command):
    rules = ["--set", "*.c_fc.weight=truncated_normal(std=0.02, low=-2, high=2, bounds=absolute)"]
    arguments = [command, config, *([tmp_path / "out"] if command == "init" else []), *rules]
    assert cli.main([str(argument) for argument in arguments]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith(
        "fanin: warning: transformer.h.*.mlp.c_fc.weight (3 tensors): bounds [-2, 2]"
    )
    assert "UserWarning" not in err
    assert "fanin: warning" not in out


def test_json_has_warnings_and_predictions(config, capsys):
    assert cli.main(["plan", config, "--set", "*.c_fc.weight=ones", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [warning["kind"] for warning in content["warnings"]] == ["symmetry"]
    assert len(content["depth"]["stream"]) == 4
    assert content["first_loss"]["uniform"] == pytest.approx(math.log(500))


def test_the_depth_of_a_plan(config, capsys):
    cli.main(["plan", config])
    short = capsys.readouterr().out.splitlines()
    cli.main(["plan", config, "--depth"])
    long = capsys.readouterr().out.splitlines()
    assert short[-2].startswith("predicted RMS of the residual stream: 0.0283 behind the embed")
    assert short[-1].startswith("predicted first loss: 6.")
    assert long[: len(short) - 2] + long[-2:] == short
    assert long[len(short) - 2].split()[:2] == ["block", "stream"]


def test_a_plan_against_another_scheme(config, capsys):
    arguments = ["plan", config, "--scheme", "bert", "--set", "*.wpe.weight=zeros"]
    assert cli.main([*arguments, "--against", "gpt2(residual=branches)"]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = {line.split()[0]: line.split()[-1] for line in lines if " float32 " in line}
    assert columns["transformer.wte.weight"] == "1"
    assert columns["transformer.wpe.weight"] == "0"
    assert columns["transformer.h.2.mlp.c_proj.weight"] == f"{math.sqrt(6):.4g}"
    assert any(
        "another initialization without another learning rate is another effective step" in line
        for line in lines
    )
    assert cli.main([*arguments, "--against", "xavier", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    ratios = {tensor["name"]: tensor["rms_ratio"] for tensor in content["tensors"]}
    assert content["against"] == "xavier"
    assert ratios["transformer.h.0.mlp.c_fc.weight"] == pytest.approx(0.02 / math.sqrt(2 / 320))
    assert ratios["transformer.h.0.mlp.c_fc.bias"] == ratios["transformer.ln_f.weight"] == 1.0
    assert cli.main([*arguments, "--against", "xaver"]) == 1
    assert "did you mean 'xavier'" in capsys.readouterr().err


def test_a_ratio_to_nothing(config, capsys):
    cli.main(["plan", config, "--scheme", "torch_default", "--against", "gpt2", "--json"])
    content = json.loads(capsys.readouterr().out)
    ratios = {tensor["name"]: tensor["rms_ratio"] for tensor in content["tensors"]}
    assert ratios["transformer.h.0.mlp.c_fc.bias"] is None


def test_the_report_of_a_module_has_the_warnings():
    config = transformers.AutoConfig.for_model(**GPT2)
    module = transformers.GPT2LMHeadModel(config)
    overrides = {"*.c_fc.weight": "constant(0.1)"}
    report = initialize_(module, overrides=overrides)
    assert report.warnings == plan_of(GPT2, *overrides.items()).warnings
    assert [warning.kind for warning in report.warnings] == ["symmetry"]
    assert f"warning: {report.warnings[0]}" in str(report).splitlines()
    assert initialize_(module).warnings == ()


def test_layers_of_which_no_model_is_known_have_what_needs_none():
    module = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.Tanh(), torch.nn.BatchNorm1d(30))
    rules = {"0.weight": f"normal(std={math.sqrt(2 / 30)})"}
    assert [each.kind for each in initialize_(module, overrides=rules).warnings] == ["fans"]
    assert initialize_(module, "he").warnings == ()  # nobody knows which activation follows


def test_a_tree_of_jax_has_them_too():
    shape = jax.ShapeDtypeStruct((30, 40), jnp.float32)
    tree = {"dense": {"kernel": shape}}
    plan = fanin.jax.make_plan(tree, overrides=[("dense/kernel", "truncated_normal(std=0.1)")])
    assert [warning.kind for warning in plan.warnings] == ["truncation"]
    assert fanin.jax.make_plan(tree, "he").warnings == ()
