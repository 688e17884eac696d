"""Schemes: `auto` measured against transformers itself, the others against their numbers."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch
import transformers

from fanin import families, schemes
from fanin.gains import gain
from fanin.initializers import (
    Constant,
    MambaALog,
    MambaDtBias,
    Normal,
    Orthogonal,
    Sinusoids,
)
from fanin.model import Part
from fanin.plan import make_plan
from fanin.rules import initializer_of, weights
from scheme_models import BERT, GPT2, INNER, LLAMA, VOCAB, WIDTH, constants, stds

QWEN_MOE = {"num_experts": 3, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 40}
LATENT = {
    "kv_lora_rank": 24,
    "q_lora_rank": 30,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 20,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "moe_intermediate_size": 64,
}
ROBERTA = BERT | {"model_type": "roberta", "type_vocab_size": 1, "max_position_embeddings": 50}
DISTILBERT = {
    "model_type": "distilbert",
    "vocab_size": VOCAB,
    "dim": WIDTH,
    "hidden_dim": INNER,
    "n_layers": 2,
    "n_heads": 4,
}
T5 = {
    "model_type": "t5",
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "d_kv": 16,
    "d_ff": INNER,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 5,
}
BART = {
    "model_type": "bart",
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": 2 * INNER,
    "pad_token_id": 7,
}
WHISPER = BART | {"model_type": "whisper", "num_mel_bins": 20}
VISION = {
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 4,
}
VIT = {"model_type": "vit", "num_labels": 30, **VISION}
TOWERS = {
    "text_config": {**VISION, "vocab_size": VOCAB, "num_hidden_layers": 3, "hidden_size": 64},
    "vision_config": VISION,
}
CLIP_FACTORS = {
    "text_config": {**TOWERS["text_config"], "initializer_factor": 0.5},
    "vision_config": {**VISION, "initializer_range": 0.3, "initializer_factor": 0.25},
}
MAMBA = {"vocab_size": VOCAB, "hidden_size": WIDTH, "num_hidden_layers": 3, "state_size": 5}
MAMBA2 = MAMBA | {"model_type": "mamba2", "num_heads": 64, "head_dim": 3, "n_groups": 2}
CONFIGS = {
    "vit": VIT,
    "vit masked": VIT | {"architectures": ["ViTForMaskedImageModeling"], "initializer_range": 0.9},
    "vit bare": VIT | {"architectures": ["ViTModel"], "qkv_bias": False},
    "deit": VIT | {"model_type": "deit", "initializer_range": 0.3},
    "dinov2": VIT | {"model_type": "dinov2", "initializer_range": 1.5, "layerscale_value": 0.25},
    "dinov2 gated": VIT | {"model_type": "dinov2", "use_swiglu_ffn": True},
    "clip": TOWERS | {"model_type": "clip", "logit_scale_init_value": -3.5},
    "clip factors": CLIP_FACTORS | {"model_type": "clip", "initializer_factor": 2.0},
    "clip classes": CLIP_FACTORS
    | {"model_type": "clip", "architectures": ["CLIPForImageClassification"]},
    "clip vision": CLIP_FACTORS["vision_config"]
    | {"model_type": "clip_vision_model", "architectures": ["CLIPVisionModelWithProjection"]},
    "siglip": TOWERS | {"model_type": "siglip"},
    "siglip classes": TOWERS
    | {
        "model_type": "siglip",
        "architectures": ["SiglipForImageClassification"],
        "initializer_factor": 3.0,
        "num_labels": 40,
    },
    "mamba": MAMBA | {"model_type": "mamba", "use_bias": True},
    "mamba rescaled": MAMBA
    | {
        "model_type": "mamba",
        "initializer_range": 0.0,
        "rescale_prenorm_residual": True,
        "tie_word_embeddings": False,
        "time_step_init_scheme": "constant",
        "time_step_scale": 0.5,
        "time_step_max": 3.0,
        "time_step_floor": 0.01,
    },
    "mamba of another scheme": MAMBA | {"model_type": "mamba", "time_step_init_scheme": "other"},
    "mamba2": MAMBA2 | {"tie_word_embeddings": True},
    "mamba2 rescaled": MAMBA2 | {"rescale_prenorm_residual": True, "use_conv_bias": False},
    "gpt2": GPT2,
    "gpt2 wide": GPT2 | {"initializer_range": 0.3, "tie_word_embeddings": False},
    "gpt2 range 0": GPT2 | {"initializer_range": 0.0, "tie_word_embeddings": False},
    "gpt2 cross": GPT2 | {"add_cross_attention": True, "pad_token_id": 3},
    "llama": LLAMA | {"attention_bias": True, "mlp_bias": True},
    "llama padding": LLAMA | {"pad_token_id": 5, "tie_word_embeddings": True},
    "llama padding at the end": LLAMA | {"pad_token_id": -1, "initializer_range": 0.5},
    "mistral": LLAMA | {"model_type": "mistral", "initializer_range": 0.0},
    "qwen2": LLAMA | {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": LLAMA | {"model_type": "qwen3", "attention_bias": True},
    "bert": BERT,
    "bert untied": BERT | {"tie_word_embeddings": False, "initializer_range": 0.1},
    "bert range 0": BERT | {"pad_token_id": 7, "initializer_range": 0.0},
    "bert pretraining": BERT | {"architectures": ["BertForPreTraining"]},
    "mixtral": LLAMA | {"model_type": "mixtral", "num_local_experts": 3},
    "qwen2_moe": LLAMA | QWEN_MOE | {"model_type": "qwen2_moe", "mlp_only_layers": [1]},
    "qwen3_moe range 0": LLAMA | QWEN_MOE | {"model_type": "qwen3_moe", "initializer_range": 0.0},
    "olmoe": LLAMA | {"model_type": "olmoe", "num_experts": 3, "initializer_range": 0.1},
    "deepseek_v3": LLAMA | LATENT | {"model_type": "deepseek_v3", "attention_bias": True},
    "deepseek_v2 range 0": LLAMA | LATENT | {"model_type": "deepseek_v2", "initializer_range": 0.0},
    "gpt_oss": LLAMA | {"model_type": "gpt_oss", "num_local_experts": 3, "head_dim": 16},
    "bert bare": BERT | {"architectures": ["BertModel"], "pad_token_id": None},
    "roberta": ROBERTA,
    "roberta untied": ROBERTA | {"tie_word_embeddings": False, "pad_token_id": -1},
    "xlm-roberta": ROBERTA | {"model_type": "xlm-roberta", "initializer_range": 0.1},
    "distilbert": DISTILBERT | {"tie_word_embeddings": False},
    "distilbert sinusoids": DISTILBERT | {"sinusoidal_pos_embds": True, "initializer_range": 0.0},
    "t5": T5,
    "t5 gated": T5 | {"feed_forward_proj": "gated-gelu", "initializer_factor": 0.25},
    "t5 encoder": T5 | {"architectures": ["T5EncoderModel"], "initializer_factor": 0.0},
    "mt5": T5 | {"model_type": "mt5", "initializer_factor": 2.0},
    "umt5": T5 | {"model_type": "umt5"},
    "bart": BART,
    "bart range": BART | {"init_std": 0.1, "initializer_range": 0.3},
    "bart range 0": BART | {"init_std": 0.1, "initializer_range": 0.0},
    "opt range": {"model_type": "opt", "vocab_size": 64, "hidden_size": 24, "ffn_dim": 40}
    | {"num_hidden_layers": 1, "num_attention_heads": 2, "initializer_range": 0.3},
    "mbart untied": BART | {"model_type": "mbart", "tie_word_embeddings": False, "init_std": 0.1},
    "electra": BERT | {"model_type": "electra", "embedding_size": 40, "initializer_range": 0.0},
    "whisper": WHISPER,
    "whisper untied": WHISPER | {"tie_word_embeddings": False, "init_std": 0.3},
    "whisper std 0": WHISPER | {"architectures": ["WhisperModel"], "init_std": 0.0},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_auto_is_what_transformers_does(name):
    model = families.build(CONFIGS[name])
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**deepcopy(model.raw))
    state = getattr(transformers, model.architecture)(config).state_dict()
    for entry in make_plan(model.in_module()).entries:
        stored = state[entry.tensor.name].double()
        for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
            region = stored[
                tuple(
                    slice(first, first + step * (size - 1) + 1, step)
                    for first, step, size in zip(
                        part.tensor_start, part.tensor_step, part.extent, strict=True
                    )
                )
            ]
            if isinstance(initializer, Constant):
                assert torch.all(region == float(np.float32(initializer.value))), part.name
                continue
            if isinstance(initializer, Sinusoids):  # which transformers may compute in float32
                values = initializer.fill(torch.empty(part.shape), seed=0).double()
                torch.testing.assert_close(region, values, rtol=0, atol=1.5e-4)
                continue
            if isinstance(initializer, MambaALog):  # which transformers computes in float32
                values = initializer.fill(torch.empty(part.shape), seed=0).double()
                torch.testing.assert_close(region, values, rtol=2e-7, atol=0)
                continue
            std = initializer.standard_deviation(part.shape, part.layout, part.groups)
            mean = initializer.mean() if isinstance(initializer, MambaDtBias) else 0.0
            # 6 standard errors of the mean and of the standard deviation of a normal sample.
            assert abs(region.mean() - mean) <= 6 * std / math.sqrt(part.numel), part.name
            assert region.std().item() == pytest.approx(std, rel=6 / math.sqrt(2 * part.numel))
            zero_rows = (region == 0).all(dim=-1)
            assert zero_rows.all() if std == 0 else not zero_rows.any(), part.name


def test_an_untied_head_of_t5_is_no_embedding():
    """With N(0, 1) the logits had a standard deviation of 22.6, and the first loss would be 100."""
    config = T5 | {"d_model": 512, "tie_word_embeddings": False, "initializer_factor": 0.5}
    measured = stds("auto", config)
    assert measured["lm_head.weight"] == pytest.approx(0.5 / math.sqrt(512))
    assert measured["shared.weight"] == 0.5
    assert "lm_head.weight" not in stds("auto", config | {"tie_word_embeddings": True})


@pytest.mark.parametrize("scheme", sorted(schemes.SCHEMES))
@pytest.mark.parametrize("config", [DISTILBERT, WHISPER], ids=lambda c: c["model_type"])
def test_computed_positions_are_computed_in_every_scheme(scheme, config):
    model = families.build(config | {"sinusoidal_pos_embds": True})
    plan = make_plan(model, scheme=f"{scheme}(embedding_std=0.5)")
    (computed,) = (entry for entry in plan.entries if "sinusoids" in entry.tensor.role)
    assert isinstance(computed.initializers[0], Sinusoids)


def test_gpt2_scales_what_ends_a_branch_once():
    for config, out, down in (
        (GPT2, "h.2.attn.c_proj.weight", "h.0.mlp.c_proj.weight"),
        (LLAMA, "layers.2.self_attn.o_proj.weight", "layers.0.mlp.down_proj.weight"),
    ):
        measured = stds("gpt2", config)
        assert measured.pop(out) == measured.pop(down) == pytest.approx(0.02 / math.sqrt(6))
        assert {std for std in measured.values() if std > 0.01} == {0.02}
    assert stds("gpt2", GPT2)["wpe.weight"] == 0.02
    (out,) = (
        entry.initializer
        for entry in make_plan(families.load("gpt2"), scheme="gpt2").entries
        if entry.tensor.name == "transformer.h.0.mlp.c_proj.weight"
    )
    assert out == f"normal(std={0.02 / math.sqrt(24)!r})"


def test_gpt2_counts_the_branches_of_cross_attention():
    decoder = {"is_decoder": True, "add_cross_attention": True}
    for config, out in (
        (GPT2, "h.2.crossattention.c_proj.weight"),
        (BERT | decoder, "bert.encoder.layer.0.output.dense.weight"),
    ):
        assert stds("gpt2", config | decoder)[out] == pytest.approx(0.02 / math.sqrt(9))
    measured = stds("gpt2", T5)
    assert measured["encoder.block.1.layer.1.DenseReluDense.wo.weight"] == 0.02 / math.sqrt(4)
    assert measured["decoder.block.0.layer.2.DenseReluDense.wo.weight"] == 0.02 / math.sqrt(3)


@pytest.mark.parametrize("scheme", ["bert", "llama"])
@pytest.mark.parametrize("config", [GPT2, LLAMA, BERT], ids=lambda config: config["model_type"])
def test_flat_schemes(scheme, config):
    assert set(stds(scheme, config | {"initializer_range": 0.5}).values()) == {0.0, 0.02}


@pytest.mark.parametrize("scheme", sorted(set(schemes.SCHEMES) - {"torch_default"}))
def test_constants(scheme):
    zeros = {"fixup": ("attention.out", "mlp.out"), "zero_residual": ("attention.out", "mlp.out")}
    ends = dict.fromkeys(zeros.get(scheme, ()), 0.0)
    norms = {"norm.scale": 1.0, "norm.bias": 0.0, "bias": 0.0}
    assert constants(scheme, GPT2) == norms | ends
    assert constants(scheme, BERT) == norms | ends | {"bias.head": 0.0, "embedding.padding": 0.0}
    head = {"head": 0.0} if scheme == "fixup" else {}
    assert constants(scheme, LLAMA) == {"norm.scale": 1.0} | ends | head


def test_torch_default_is_what_layers_start_from():
    torch.manual_seed(0)
    measured = stds("torch_default", BERT)
    intermediate = torch.nn.Linear(WIDTH, INNER)
    for kind, weight in intermediate.named_parameters():
        bound = 1 / math.sqrt(WIDTH)
        assert abs(weight).max() <= bound
        std = measured[f"bert.encoder.layer.0.intermediate.dense.{kind}"]
        assert std == pytest.approx(bound / math.sqrt(3))
        assert std == pytest.approx(weight.std().item(), rel=0.2)
    # A bias has the bound of its own matrix, also where it is fused and where it ends a wide layer.
    output = stds("torch_default", GPT2)
    assert output["h.0.mlp.c_proj.bias"] == pytest.approx(1 / math.sqrt(3 * INNER))
    assert output["h.0.mlp.c_proj.weight"] == pytest.approx(1 / math.sqrt(3 * INNER))
    assert output["h.0.attn.c_attn.bias#key"] == pytest.approx(1 / math.sqrt(3 * WIDTH))
    assert output["wte.weight"] == output["wpe.weight"] == 1.0
    assert constants("torch_default", BERT) == {
        "norm.scale": 1.0,
        "norm.bias": 0.0,
        "bias.head": 0.0,  # of no matrix: the head is tied
        "embedding.padding": 0.0,
    }


def test_torch_default_leaves_a_bias_without_a_matrix_at_zero():
    assert stds("torch_default", BERT)["cls.predictions.bias"] == 0.0


def test_xavier_takes_query_key_and_value_one_by_one():
    measured = stds("xavier", GPT2)
    assert measured["h.0.attn.c_attn.weight#value"] == pytest.approx(math.sqrt(2 / (2 * WIDTH)))
    assert measured["h.0.mlp.c_fc.weight"] == pytest.approx(math.sqrt(2 / (WIDTH + INNER)))
    assert measured["wte.weight"] == pytest.approx(math.sqrt(2 / (VOCAB + WIDTH)))
    resolved = schemes.rules("xavier", families.build(GPT2))["mlp"].resolve((WIDTH, INNER), "io")
    assert resolved.high == -resolved.low == pytest.approx(math.sqrt(6 / (WIDTH + INNER)))


@pytest.mark.parametrize(
    ("activation", "factor"),
    [("relu", math.sqrt(2)), ("silu", gain("silu")), ("gelu_new", gain("gelu_tanh"))],
)
def test_he_has_the_gain_of_the_activation(activation, factor):
    gpt2 = stds("he", GPT2 | {"activation_function": activation})
    assert gpt2["h.0.mlp.c_fc.weight"] == pytest.approx(factor / math.sqrt(WIDTH))
    assert gpt2["h.0.mlp.c_proj.weight"] == pytest.approx(factor / math.sqrt(INNER))
    assert gpt2["wte.weight"] == pytest.approx(1 / math.sqrt(WIDTH))
    llama = stds("he", LLAMA | {"hidden_act": activation})
    assert llama["layers.1.mlp.gate_proj.weight"] == pytest.approx(factor / math.sqrt(WIDTH))
    assert llama["layers.1.mlp.down_proj.weight"] == pytest.approx(factor / math.sqrt(INNER))
    assert llama["lm_head.weight"] == pytest.approx(factor / math.sqrt(WIDTH))


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu_new"])
def test_orthogonal_has_the_gain_of_the_activation_before_it(activation):
    factor = gain(activation)
    for config, feeding, others in (
        (
            GPT2 | {"activation_function": activation, "tie_word_embeddings": False},
            ["h.1.mlp.c_fc.weight"],
            ["h.0.attn.c_attn.weight#key", "h.2.attn.c_proj.weight", "h.0.mlp.c_proj.weight"],
        ),
        (
            LLAMA | {"hidden_act": activation},
            ["layers.0.mlp.gate_proj.weight"],
            ["layers.1.mlp.up_proj.weight", "layers.1.mlp.down_proj.weight", "lm_head.weight"],
        ),
        (
            BERT | {"hidden_act": activation},
            ["bert.encoder.layer.0.intermediate.dense.weight"],
            ["bert.encoder.layer.1.output.dense.weight"],
        ),
    ):
        measured = stds("orthogonal", config)
        for name in feeding:
            assert measured[name] == pytest.approx(factor / math.sqrt(INNER)), name
        for name in others:
            side = INNER if "mlp" in name or "output.dense" in name else WIDTH
            assert measured[name] == pytest.approx(
                1 / math.sqrt(VOCAB if name == "lm_head.weight" else side)
            ), name
    embeddings = {name: std for name, std in stds("orthogonal", GPT2).items() if "wte" in name}
    assert embeddings == {"wte.weight": 0.02}


def test_orthogonal_weights_have_one_singular_value():
    model = families.build(GPT2 | {"activation_function": "relu"})
    for entry in make_plan(model, scheme="orthogonal").entries:
        for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
            if not isinstance(initializer, Orthogonal):
                continue
            matrix = initializer.fill(np.empty(part.shape), seed=0, name=part.name, layout="io")
            values = np.linalg.svd(matrix, compute_uv=False)
            expected = math.sqrt(2) if part.role == "mlp.in" else 1
            np.testing.assert_allclose(values, expected, rtol=1e-13)
            assert len(values) == WIDTH


def test_he_refuses_an_activation_without_a_gain():
    with pytest.raises(ValueError, match=r"'gelu_nova'.*'gelu"):
        schemes.rules("he", families.build(GPT2 | {"activation_function": "gelu_nova"}))


def test_unknown_scheme_names_the_nearest():
    with pytest.raises(ValueError, match="unknown scheme 'xaver'; did you mean 'xavier'"):
        schemes.rules("xaver", families.build(GPT2))


def test_the_longest_leading_name_decides():
    def part(role):
        return Part("w", role, (4, 4), "oi", (0, 0), (4, 4), (0, 0), (1, 1), layer=2)

    table = weights(Normal(std=1.0)) | {
        "attention.query": Normal(std=2.0),
        "mlp": lambda part: Normal(std=part.layer),
    }
    assert initializer_of(table, part("attention.key")) == Normal(std=1.0)
    assert initializer_of(table, part("attention.query")) == Normal(std=2.0)
    assert initializer_of(table, part("mlp.out")) == Normal(std=2)
    assert initializer_of(table, part("embedding.padding")) == Constant(0.0)
    assert initializer_of(table, part("parameter")) is None
    assert initializer_of(table, part("heads")) is None
