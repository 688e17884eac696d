"""Schemes whose numbers depend on the depth, or on the place of a matrix in its branch."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fanin import families, schemes
from fanin.gains import gain
from fanin.initializers import TruncatedNormal, VarianceScaling
from fanin.plan import make_plan
from fanin.schemes.depth import connected, depths, power, stack_and_layer
from scheme_models import (
    BERT,
    GPT2,
    INNER,
    LAYERS,
    LLAMA,
    WIDTH,
    constants,
    encoder_decoder,
    initializers,
    stds,
)

OUT, DOWN = "layers.2.self_attn.o_proj.weight", "layers.0.mlp.down_proj.weight"
QUERY, VALUE = "layers.1.self_attn.q_proj.weight", "layers.1.self_attn.v_proj.weight"
GATE, UP = "layers.1.mlp.gate_proj.weight", "layers.1.mlp.up_proj.weight"


def test_gpt2_may_count_layers_in_place_of_branches():
    measured = stds("gpt2(residual=layers)", LLAMA)
    assert measured[OUT] == measured[DOWN] == pytest.approx(0.02 / math.sqrt(LAYERS))
    assert measured[QUERY] == 0.02
    pair = stds("gpt2(residual=layers)", encoder_decoder(2, 5))
    assert pair["encoder.block.1.mlp.wo.weight"] == pytest.approx(0.02 / math.sqrt(2))
    assert pair["decoder.block.1.cross.out.weight"] == pytest.approx(0.02 / math.sqrt(5))


def test_megatron():
    measured = stds("megatron(std=0.03)", LLAMA)
    assert measured[OUT] == measured[DOWN] == pytest.approx(0.03 / math.sqrt(2 * LAYERS))
    assert measured[QUERY] == measured["embed_tokens.weight"] == measured["lm_head.weight"] == 0.03
    assert stds("megatron", LLAMA) == stds("gpt2", LLAMA)


def test_olmo_is_indexed_by_depth():
    chosen = initializers("olmo", LLAMA)
    for layer in range(LAYERS):
        for name, fan_in in (("self_attn.o_proj", WIDTH), ("mlp.down_proj", INNER)):
            assert chosen[f"layers.{layer}.{name}.weight"] == TruncatedNormal(
                std=1 / math.sqrt(2 * fan_in * (layer + 1)), low=-3, high=3
            )
    for name in (QUERY, VALUE, GATE, UP, "embed_tokens.weight", "lm_head.weight"):
        assert chosen[name] == TruncatedNormal(std=1 / math.sqrt(WIDTH), low=-3, high=3), name
    for entry in make_plan(families.build(LLAMA), scheme="olmo").entries[:2]:
        sample = np.empty(entry.tensor.shape, np.float32)
        entry.fill(sample, seed=0)
        assert 2.9 < abs(sample).max() * math.sqrt(WIDTH) <= 3
        assert sample.std() * math.sqrt(WIDTH) == pytest.approx(0.98658, rel=0.02)


@pytest.mark.parametrize("std", [0.001, 1e-4])
def test_small(std):
    assert set(stds(f"small(std={std})", GPT2).values()) == {0.0, std}
    assert stds("small", GPT2) == stds("small(std=1e-3)", GPT2)


def test_small_init_and_wang():
    for config, out in ((GPT2, "h.0.attn.c_proj.weight"), (LLAMA, OUT)):
        small, wang = stds("small_init", config), stds("wang", config)
        ends = {
            name
            for name in small
            if "c_proj.weight" in name or name.split(".")[-2] in ("o_proj", "down_proj")
        }
        assert out in ends
        assert len(ends) == 2 * LAYERS
        for name, std in small.items():
            if std > 0:
                assert std == pytest.approx(math.sqrt(2 / (5 * WIDTH))), name
            expected = 2 / (LAYERS * math.sqrt(WIDTH)) if name in ends else std
            assert wang[name] == pytest.approx(expected), name


def test_lecun():
    measured = stds("lecun", GPT2)
    assert measured["h.1.mlp.c_fc.weight"] == pytest.approx(1 / math.sqrt(WIDTH))
    assert measured["h.1.mlp.c_proj.weight"] == pytest.approx(1 / math.sqrt(INNER))
    assert measured["wte.weight"] == pytest.approx(1 / math.sqrt(WIDTH))


# --- deepnorm


def xavier(fan_in, fan_out):
    return math.sqrt(2 / (fan_in + fan_out))


@pytest.mark.parametrize("config", [GPT2, BERT, LLAMA], ids=lambda config: config["model_type"])
def test_deepnorm_of_one_stack(config):
    beta = (8 * LAYERS) ** -0.25
    names = {
        "gpt2": ("h.1.attn.c_attn.weight#", "h.1.mlp.c_fc.weight", "wte.weight"),
        "bert": (
            "bert.encoder.layer.1.attention.self.",
            "bert.encoder.layer.1.intermediate.dense.weight",
            "bert.embeddings.position_embeddings.weight",
        ),
        "llama": ("layers.1.self_attn.", "layers.1.mlp.up_proj.weight", "lm_head.weight"),
    }
    attention, up, table = names[config["model_type"]]
    measured = stds("deepnorm", config)

    def projection(*words):
        found = [name for name in measured if name.startswith(attention) and "bias" not in name]
        return next(measured[name] for name in found if any(word in name for word in words))

    keys = WIDTH // 2 if config is LLAMA else WIDTH
    assert projection("query", "q_proj") == pytest.approx(xavier(WIDTH, WIDTH))
    assert projection("key", "k_proj") == pytest.approx(xavier(WIDTH, keys))
    assert projection("value", "v_proj") == pytest.approx(beta * xavier(WIDTH, keys))
    assert measured[up] == pytest.approx(beta * xavier(WIDTH, INNER))
    assert measured[table] == pytest.approx(1 / math.sqrt(WIDTH))


def test_deepnorm_of_an_encoder_and_a_decoder():
    n, m = 6, 4
    measured = stds("deepnorm", encoder_decoder(n, m))
    encoder, decoder = 0.87 * (n**4 * m) ** -0.0625, (12 * m) ** -0.25
    for stack, beta in (("encoder", encoder), ("decoder", decoder)):
        at = f"{stack}.block.1."
        assert measured[f"{at}self.query.weight"] == pytest.approx(xavier(WIDTH, WIDTH))
        assert measured[f"{at}self.value.weight"] == pytest.approx(beta * xavier(WIDTH, WIDTH))
        assert measured[f"{at}self.out.weight"] == pytest.approx(beta * xavier(WIDTH, WIDTH))
        assert measured[f"{at}mlp.wo.weight"] == pytest.approx(beta * xavier(WIDTH, INNER))
    (note,) = schemes.notes("deepnorm", encoder_decoder(n, m))
    alpha = 0.81 * (n**4 * m) ** 0.0625, (3 * m) ** 0.25
    assert f"alpha {alpha[0]:.6g} in encoder.block, {alpha[1]:.6g} in decoder.block" in note


# --- fixup


def test_fixup():
    branches, g = 2 * LAYERS, gain("gelu_new")
    measured = stds("fixup", GPT2)
    for name in ("query", "key", "value"):
        expected = branches ** (-1 / 6) * xavier(WIDTH, WIDTH)
        assert measured[f"h.0.attn.c_attn.weight#{name}"] == pytest.approx(expected)
    expected = branches**-0.5 * g / math.sqrt(WIDTH)
    assert measured["h.2.mlp.c_fc.weight"] == pytest.approx(expected)
    assert measured["wte.weight"] == pytest.approx(1 / math.sqrt(WIDTH))
    assert isinstance(initializers("fixup", GPT2)["wte.weight"], VarianceScaling)
    ends = [name for name in measured if name.endswith("c_proj.weight")]
    assert {measured[name] for name in ends} == {0.0}


def test_fixup_of_gated_branches_counts_three_matrices():
    measured, g = stds("fixup", LLAMA), gain("silu")
    for name in (GATE, UP):
        assert measured[name] == pytest.approx((2 * LAYERS) ** -0.25 * g / math.sqrt(WIDTH))
    assert measured["lm_head.weight"] == measured[OUT] == measured[DOWN] == 0.0


def test_fixup_counts_an_encoder_and_its_decoder_together():
    measured = stds("fixup", encoder_decoder(6, 4))
    branches = 2 * 6 + 3 * 4
    for stack in ("encoder", "decoder"):
        assert measured[f"{stack}.block.0.mlp.wi.weight"] == pytest.approx(
            branches**-0.5 * gain("gelu_new") / math.sqrt(WIDTH)
        )
    assert measured["head.weight"] == 0.0


# --- zero_residual


def test_zero_residual_changes_what_ends_a_branch_and_nothing_else():
    for base in ("auto", "he", "mup(base_width=32)"):
        plain, zero = initializers(base, LLAMA), initializers(f"zero_residual(base={base})", LLAMA)
        changed = {name for name in plain if plain[name] != zero[name]}
        assert changed == {
            f"layers.{layer}.{name}.weight"
            for layer in range(LAYERS)
            for name in ("self_attn.o_proj", "mlp.down_proj")
        }
        assert {zero[name].value for name in changed} == {0.0}
    rates = schemes.learning_rates("zero_residual(base=mup(base_width=32))", families.build(LLAMA))
    assert rates["lm_head.weight"] == pytest.approx(32 / WIDTH)
    assert constants("zero_residual", GPT2)["norm.scale"] == 1.0


# --- depth


def test_stacks():
    assert depths(families.build(LLAMA)) == {"model.layers": LAYERS}
    assert depths(families.build(BERT)) == {"bert.encoder.layer": LAYERS}
    pair = encoder_decoder(6, 4)
    assert depths(pair) == {"encoder.block": 6, "decoder.block": 4}
    assert connected(depths(pair)) == {"encoder": 6, "decoder": 4}
    assert connected(depths(families.build(BERT))) is None
    embedding = families.build(LLAMA).tensors[0].parts[0]
    assert stack_and_layer(embedding) is None


@pytest.mark.parametrize(("base", "denominator"), [(2, 2), (24, -4), (10**9, -16), (7, -6)])
def test_powers(base, denominator):
    assert power(base, Fraction(1, denominator)) == pytest.approx(base ** (1 / denominator), 1e-15)
