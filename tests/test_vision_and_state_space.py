"""Vision, contrastive and state-space models: roles, fans, towers, what no scheme may overwrite."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch
import transformers

from family_configs import TINY
from fanin import families, fans, schemes
from fanin.checkpoint import write
from fanin.initializers import Constant, MambaALog, MambaDtBias, Uniform
from fanin.plan import make_plan
from fanin.rules import OWN, initializer_of
from fanin.torch import initialize_


def build(model_type, **fields):
    return families.build({"model_type": model_type, **TINY[model_type], **fields})


def tensor_of(model, name):
    return next(tensor for tensor in model.tensors if tensor.name.endswith(name))


def part_of(model, name):
    (part,) = tensor_of(model, name).parts
    return part


# Roles and fans


@pytest.mark.parametrize(
    ("model_type", "name", "role", "expected"),
    [
        ("vit", "patch_embeddings.projection.weight", "conv.patch", (2 * 8 * 8, 48 * 8 * 8)),
        ("vit", "position_embeddings", "embedding.position", (48, 65)),
        ("vit", "cls_token", "embedding.class", (48, 1)),
        ("clip", "class_embedding", "embedding.class", (48, 1)),
        ("mamba", "0.mixer.conv1d.weight", "conv.depthwise", (6, 6)),
        ("mamba2", "1.mixer.conv1d.weight", "conv.depthwise", (6, 6)),
        ("siglip", "head.probe", "embedding.probe", (48, 1)),
    ],
)
def test_fans(model_type, name, role, expected):
    part = part_of(build(model_type), name)
    assert part.role == role
    assert fans(part.shape, part.layout, part.groups) == expected


def test_a_bias_knows_the_fans_of_its_convolution():
    assert part_of(build("vit"), "patch_embeddings.projection.bias").fan_in == 2 * 8 * 8
    assert part_of(build("mamba"), "0.mixer.conv1d.bias").fan_in == 6
    decoder = build("vit", architectures=["ViTForMaskedImageModeling"])
    assert part_of(decoder, "decoder.0.weight").shape == (4**2 * 2, 48, 1, 1)


def test_a_block_of_mamba_is_one_residual_branch():
    model = build("mamba", num_hidden_layers=4)
    out = part_of(model, "3.mixer.out_proj.weight")
    assert (out.role, out.layer, out.branches) == ("ssm.out", 3, 4)
    rule = initializer_of(schemes.rules("gpt2", model), out)
    assert rule.standard_deviation() == pytest.approx(0.02 / math.sqrt(4))


# What is no weight


@pytest.mark.parametrize("scheme", sorted(schemes.SCHEMES))
@pytest.mark.parametrize("model_type", ["mamba", "mamba2", "clip", "siglip", "dinov2"])
def test_no_scheme_overwrites_what_means_something_by_itself(scheme, model_type):
    fields = {
        "mamba": {"time_step_max": 0.5, "use_bias": True},
        "mamba2": {"time_step_min": 0.01, "use_bias": True},
        "dinov2": {"layerscale_value": 0.125},
        "clip": {"logit_scale_init_value": 1.5},
    }
    model = build(model_type, **fields.get(model_type, {}))
    rules = schemes.rules(scheme, model)
    found = {
        part.role: initializer_of(rules, part)
        for tensor in model.tensors
        for part in tensor.parts
        if part.role.startswith(OWN)
    }
    limit = 1 / math.sqrt(4)
    assert (
        found
        == {
            "mamba": {
                "ssm.a_log": MambaALog(),
                "ssm.d": Constant(1.0),
                "ssm.dt.weight": Uniform(-limit, limit),
                "ssm.dt.bias": MambaDtBias(0.001, 0.5, 1e-4),
            },
            "mamba2": {
                "ssm.a_log": MambaALog(),
                "ssm.d": Constant(1.0),
                "ssm.dt.bias": MambaDtBias(0.01, 0.1, 1e-4),
            },
            "clip": {"logit_scale": Constant(1.5)},
            "siglip": {"logit_scale": Constant(0.0), "logit_bias": Constant(0.0)},
            "dinov2": {"layer_scale": Constant(0.125)},
        }[model_type]
    )


def test_an_override_may():
    rules = [("*.A_log", "zeros"), ("*.dt_proj.bias", "mamba_dt_bias(high=1)")]
    plan = make_plan(build("mamba"), overrides=rules)
    chosen = {
        entry.tensor.name.rpartition("mixer.")[2]: entry.initializer for entry in plan.entries
    }
    assert chosen["A_log"] == "zeros"
    assert chosen["dt_proj.bias"] == "mamba_dt_bias(high=1.0)"
    with pytest.raises(
        ValueError, match=r"A_log: .*needs a matrix, but this is a table without fans.*\(64, 6\)"
    ):
        make_plan(build("mamba"), overrides=[("*.A_log", "he_normal")])


@pytest.mark.parametrize("scheme", ["auto", "he"])
def test_a_module_has_decays_and_time_steps(scheme):
    config = transformers.MambaConfig(**TINY["mamba"], use_bias=True)
    module = transformers.MambaForCausalLM(config)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(torch.nan)
    initialize_(module, scheme)
    for layer in module.backbone.layers:
        decays = torch.arange(1.0, 7.0).expand(64, 6)
        torch.testing.assert_close(layer.mixer.A_log.exp(), decays)
        steps = torch.nn.functional.softplus(layer.mixer.dt_proj.bias)
        assert 0.001 <= steps.min() < 0.002
        assert 0.05 < steps.max() < 0.1001
        assert (layer.mixer.D == 1).all()
        assert not layer.mixer.in_proj.bias.any()
    one, other = (layer.mixer.dt_proj.bias for layer in module.backbone.layers)
    assert not torch.equal(one, other)


# Towers


def test_each_tower_of_clip_is_scaled_by_its_own_width_depth_and_factor():
    model = build(
        "clip",
        text_config={**TINY["clip"]["text_config"], "num_hidden_layers": 3},
        vision_config={**TINY["clip"]["vision_config"], "initializer_factor": 0.5},
        initializer_factor=2.0,
    )
    stds = {
        entry.tensor.name.replace("encoder.layers.0.", ""): entry.std
        for entry in make_plan(model).entries
    }
    assert stds["text_model.self_attn.q_proj.weight"] == pytest.approx(64**-0.5 * 6**-0.5)
    assert stds["vision_model.self_attn.q_proj.weight"] == pytest.approx(0.5 * 48**-0.5 * 4**-0.5)
    assert stds["vision_model.self_attn.out_proj.weight"] == pytest.approx(0.5 * 48**-0.5)
    assert stds["vision_model.mlp.fc1.weight"] == pytest.approx(0.5 * 96**-0.5)
    assert stds["text_model.mlp.fc2.weight"] == pytest.approx(64**-0.5 * 6**-0.5)
    assert stds["text_projection.weight"] == pytest.approx(2 * 64**-0.5)
    assert stds["visual_projection.weight"] == pytest.approx(2 * 48**-0.5)
    assert (model.num_layers, model.hidden_size) == (3, 64)
    assert model.config["vision"]["patch_size"] == 8


def test_a_config_of_two_towers_is_not_changed():
    raw = {"model_type": "clip", **TINY["clip"], "vision_config_dict": {"hidden_size": 24}}
    before = deepcopy(raw)
    with pytest.raises(ValueError, match=r"vision_config_dict\.hidden_size is 24"):
        families.build({**raw, "vision_config_dict": {"hidden_size": 24, "num_attention_heads": 5}})
    families.build(raw)
    assert raw == before


def test_fused_gate_and_up_of_dinov2_are_layers_of_their_own_in_the_module(tmp_path):
    raw = {
        "model_type": "dinov2",
        "architectures": ["Dinov2ForImageClassification"],
        **TINY["dinov2"],
        "use_swiglu_ffn": True,
    }
    model = families.build(raw)
    stored = tensor_of(model, "1.mlp.weights_in.weight")
    assert [(part.name[-5:], part.role) for part in stored.parts] == [
        ("#gate", "mlp.gate"),
        ("ht#up", "mlp.in"),
    ]
    gate = part_of(model.in_module(), "1.mlp.gate_proj.weight")
    assert gate == stored.parts[0]
    up = part_of(model.in_module(), "1.mlp.up_proj.weight")
    assert (up.name, up.tensor_start, up.start) == (stored.parts[1].name, (0, 0), (0, 0))
    write(make_plan(model, scheme="xavier", seed=3), tmp_path / "fused")
    module = transformers.Dinov2ForImageClassification.from_pretrained(tmp_path / "fused")
    own = transformers.Dinov2ForImageClassification(module.config)
    initialize_(own, "xavier", seed=3)
    loaded = module.state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in own.state_dict().items())
    # And a file in the module's layout.
    write(make_plan(model.in_module(), scheme="xavier", seed=3), tmp_path / "split")
    again = transformers.Dinov2ForImageClassification.from_pretrained(tmp_path / "split")
    assert all(torch.equal(value, loaded[name]) for name, value in again.state_dict().items())


def test_rescaled_residuals_of_mamba():
    for fields, std in (({}, 1.0), ({"rescale_prenorm_residual": True}, math.sqrt(2))):
        part = part_of(model := build("mamba2", **fields), "1.mixer.out_proj.weight")
        rule = initializer_of(model.auto, part)
        limit = 1 / math.sqrt(64) / std
        assert rule.standard_deviation(part.shape, part.layout) == pytest.approx(
            limit / math.sqrt(3)
        )
        values = rule.fill(np.empty(part.shape), seed=0, layout=part.layout)
        assert 0.98 * limit < abs(values).max() <= limit


# Errors

BAD = [
    ("vit", {"image_size": 7}, r"image_size is \[7, 7\]: must be at least patch_size, which is 8"),
    ("vit", {"image_size": [64]}, r"image_size is \[64\]: must be .* or a list of two"),
    ("vit", {"patch_size": [8, 0]}, r"patch_size is \[8, 0\]: must be a whole number from 1 to"),
    ("vit", {"num_labels": -1}, r"num_labels is -1: must be a whole number from 0 to"),
    ("vit", {"id2label": ["cat"]}, r"id2label is \[\"cat\"\]: must be an object with the names"),
    ("vit", {"id2label": {"cat": 0}}, r"id2label is .*: must be an object with the names"),
    ("dinov2", {"layerscale_value": math.nan}, "layerscale_value is NaN: must be a finite number"),
    ("clip", {"text_config": 3}, "text_config is 3: must be an object"),
    (
        "clip",
        {"vision_config": {"patch_size": 0}},
        r"vision_config\.patch_size is 0: must be a whole number from 1",
    ),
    (
        "clip",
        {"text_config": {"num_attention_heads": 5}},
        r"text_config\.hidden_size is 512: must be a multiple of text_config\.num_attention_heads",
    ),
    ("siglip_vision_model", {"image_size": 4}, "image_size is 4: must be at least patch_size"),
    ("mamba", {"time_step_rank": "max"}, r'time_step_rank is "max": must be "auto" or a whole'),
    ("mamba", {"time_step_min": 0}, r"time_step_min is 0: must be from 1e-30 to 1e\+30"),
    ("mamba", {"time_step_min": 2}, "time_step_min is 2: must not be above time_step_max"),
    ("mamba2", {"num_heads": 5}, "num_heads is 5: times head_dim must be 64, hidden_size times"),
]


@pytest.mark.parametrize(("model_type", "fields", "message"), BAD)
def test_errors(model_type, fields, message):
    with pytest.raises(ValueError, match=rf"^config\.json: {message}"):
        build(model_type, **fields)
