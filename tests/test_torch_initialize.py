"""`fanin.torch.initialize_`: the bits of `fanin init`, names as keys, every tensor exactly once."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
import torch
import transformers
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import fanin
from family_configs import TINY
from fanin import families
from fanin.checkpoint import write
from fanin.initializers import Constant, MambaDtBias
from fanin.model import PADDING
from fanin.plan import make_plan
from fanin.rules import initializer_of
from fanin.torch import InitializationError, initialize_
from fanin.torch.hugging_face import family_model, intentions
from fanin.torch.inventory import take_inventory
from test_families import ARCHITECTURES

NAN = float("nan")


def poison(module):
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(NAN if tensor.is_floating_point() else 77)
    return module


def from_config(raw, tie=True, device="meta"):
    config = transformers.AutoConfig.for_model(**raw)
    with torch.device(device):
        model = getattr(transformers, raw["architectures"][0])._from_config(
            config, dtype=config.dtype
        )
    if device == "meta":
        model.to_empty(device="cpu")
        if tie:
            model.tie_weights()
    return poison(model)


def tensors(module):
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert not different


# Models that a family knows


@pytest.mark.parametrize(("model_type", "architecture"), ARCHITECTURES)
def test_the_bits_of_a_checkpoint(model_type, architecture, tmp_path):
    raw = {"model_type": model_type, "architectures": [architecture], **TINY[model_type]}
    options = {"scheme": "auto", "seed": 7}
    if architecture.endswith("Model"):
        raw |= {"dtype": "bfloat16"}
        options |= {"scheme": "he", "seed": 2**64 - 1}
    else:
        options["overrides"] = [("*.0.*bias", "normal(std=3)")] if model_type == "gpt2" else []
    write(make_plan(families.build(raw), **options), tmp_path)
    loaded = getattr(transformers, architecture).from_pretrained(tmp_path)
    module = from_config(raw)
    report = initialize_(module, **options)
    assert_equal(tensors(module), tensors(loaded))
    assert {row.action for row in report.rows} <= {"filled", "tied", "recomputed"}


SCALE = {
    **dict.fromkeys(("opt", "bart", "mbart", "whisper"), "init_std"),
    **dict.fromkeys(("t5", "mt5", "umt5"), "initializer_factor"),
    **dict.fromkeys(("clip_text_model", "clip_vision_model"), "initializer_factor"),
}
"""What scales the weights, where it is no initializer_range."""


@pytest.mark.parametrize(("model_type", "architecture"), ARCHITECTURES)
@pytest.mark.parametrize("std", [0.03, 0.0])
def test_auto_of_a_family_is_what_init_weights_does(model_type, architecture, std):
    fields = {**TINY[model_type], SCALE.get(model_type, "initializer_range"): std}
    module = from_config({"model_type": model_type, "architectures": [architecture], **fields})
    inventory, model = take_inventory(module), family_model(module)
    found = intentions(inventory, set(inventory.modules), 0)
    theirs = found.initializers
    for tensor in model.tensors:
        pairs = [
            (part, initializer_of(model.auto, part))
            for part in tensor.parts
            if part.role != PADDING
        ]
        if tensor.buffer:
            assert found.buffers[tensor.name].eq(0).all()
            theirs[tensor.name] = Constant(0.0)
        if tensor.name in found.values:
            assert_start(pairs[0][1], found.values[tensor.name], tensor.name)
        elif tensor.role == "logit_scale" and model.model_type == "clip":  # its constructor's
            assert pairs[0][1] == Constant(model.config["logit_scale_init_value"])
        else:
            start = theirs.pop(inventory.first_name(tensor.name))
            assert all(is_same(rule, start, part) for part, rule in pairs), (tensor.name, start)
    assert not theirs


def is_same(rule, start, part):
    """True for the same distribution, but for the last digits of its numbers."""
    if rule == start:
        return True
    own = rule.resolve(part.shape, part.layout, part.groups)
    return type(own) is type(start) and vars(own) == {
        key: pytest.approx(value, rel=1e-15) if isinstance(value, float) else value
        for key, value in vars(start).items()
    }


def assert_start(rule, values, name):
    """What a layer computes for itself, by logarithms of its own, and in part at random."""
    values = values.double().numpy()
    if isinstance(rule, MambaDtBias):
        own = rule.fill(np.empty(10_000), seed=0, name=name)
        assert scipy.stats.ks_2samp(own, values.ravel()).pvalue > 1e-4, name
    else:
        own = rule.fill(np.empty(values.shape), seed=0)
        np.testing.assert_allclose(own, values, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_is_tied_as_the_module_has_it(tied):
    raw = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **TINY["gpt2"]}
    module = from_config(raw | {"tie_word_embeddings": tied})
    report = initialize_(module)
    (row,) = (row for row in report.rows if row.name == "lm_head.weight")
    assert row.action == ("tied" if tied else "filled")
    assert torch.equal(module.lm_head.weight, module.transformer.wte.weight) is tied


def test_to_empty_unties_which_is_said():
    raw = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **TINY["gpt2"]}
    module = from_config(raw, tie=False)
    assert module.lm_head.weight is not module.transformer.wte.weight
    with pytest.warns(UserWarning, match=r"lm_head.weight is tied to .*wte.*tie_weights\(\)"):
        report = initialize_(module)
    assert torch.equal(module.lm_head.weight, module.transformer.wte.weight)
    assert not torch.isnan(module.lm_head.weight).any()
    assert "lm_head.weight" in report.named("filled")


def test_a_config_that_the_module_has_outgrown():
    raw = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **TINY["llama"]}
    module = from_config(raw)
    module.config.num_hidden_layers = 3
    module.model.norm.weight = nn.Parameter(torch.full((7,), NAN))
    with pytest.raises(InitializationError, match=r"never .*model\.layers\.2\.") as caught:
        initialize_(module)
    assert "model.norm.weight of shape (128,), here (7,)" in caught.value.never
    assert all(torch.isnan(value).all() for value in module.parameters())


def test_an_added_head_beside_a_family():
    """What the family does not know is keyed and filled by its own name and layer."""
    raw = {"model_type": "bert", "architectures": ["BertModel"], **TINY["bert"]}
    module, plain = from_config(raw), from_config(raw)
    module.register_module("value_head", nn.Linear(48, 1))
    poison(module)
    initialize_(module, seed=1)
    initialize_(plain, seed=1)
    known = {name: value for name, value in tensors(module).items() if "value_head" not in name}
    assert_equal(known, tensors(plain))
    assert abs(module.value_head.weight).max() < 6 * 0.02
    assert torch.equal(module.value_head.bias, torch.zeros(1))


# Models of transformers that no family knows

UNKNOWN = {
    "vaultgemma": ("VaultGemmaForCausalLM", {**TINY["llama"], "head_dim": 8}),
    "phimoe": ("PhimoeForCausalLM", {**TINY["llama"], "num_local_experts": 3}),
    "bert": ("BertForSequenceClassification", TINY["bert"]),
    "longt5": ("LongT5ForConditionalGeneration", {"vocab_size": 96, "d_model": 24, "d_ff": 40}),
    "vit_msn": ("ViTMSNModel", {"hidden_size": 48, "intermediate_size": 64, "image_size": 32}),
    "falcon_mamba": ("FalconMambaForCausalLM", {"vocab_size": 96, "hidden_size": 32}),
}
LAYERS = {"num_layers": 2, "num_hidden_layers": 2}


@pytest.mark.parametrize("model_type", UNKNOWN)
def test_other_models_of_transformers_as_their_own_code_does(model_type):
    architecture, fields = UNKNOWN[model_type]
    raw = {"model_type": model_type, "architectures": [architecture], **fields, **LAYERS}
    module = from_config(raw)
    state = torch.random.get_rng_state()
    report = initialize_(module, seed=5)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(0)
    fresh = getattr(transformers, architecture)(transformers.AutoConfig.for_model(**raw))
    theirs = tensors(fresh)
    for name, value in tensors(module).items():
        expected = theirs[name]
        assert torch.isfinite(value).all(), name
        if expected.min() == expected.max() or not expected.is_floating_point():
            assert torch.equal(value, expected), name
            continue
        flat = [tensor.detach().flatten().double() for tensor in (value, expected)]
        assert scipy.stats.ks_2samp(*flat).pvalue > 1e-6, name
    assert not report.named("left")


def test_what_a_part_that_is_marked_as_done_would_hide():
    """ViTMAE's parent fills its patch embedding through a view of it, unless that is marked."""
    sizes = {"hidden_size": 48, "intermediate_size": 64, "image_size": 32, "num_hidden_layers": 1}
    module = from_config({"model_type": "vit_mae", "architectures": ["ViTMAEModel"], **sizes})
    projection = module.embeddings.patch_embeddings.projection
    projection._is_hf_initialized = True
    initialize_(module)
    assert projection._is_hf_initialized is True
    limit = math.sqrt(6 / (48 + 3 * 16 * 16))
    assert 0.99 * limit < projection.weight.abs().max() <= limit
    assert module.embeddings.position_embeddings.std() > 0.4  # sines and cosines


def test_norms_that_add_one_start_from_zero_in_every_scheme():
    architecture, fields = UNKNOWN["vaultgemma"]
    raw = {"model_type": "vaultgemma", "architectures": [architecture], **fields, **LAYERS}
    module = from_config(raw)
    initialize_(module, "he")
    assert not module.model.norm.weight.any()
    layer = poison(module.model.layers[0])  # by itself it belongs to no model of transformers
    initialize_(layer, "he")
    assert not layer.input_layernorm.weight.any()


def test_experts_of_other_models_are_matrices_of_their_own():
    architecture, fields = UNKNOWN["phimoe"]
    raw = {"model_type": "phimoe", "architectures": [architecture], **fields, **LAYERS}
    module = from_config(raw)
    initialize_(module, "xavier", seed=5)
    experts = module.model.layers[1].mlp.experts
    name = "model.layers.1.block_sparse_moe.experts.2.w3.weight"  # in files
    expected = fanin.xavier_uniform((48, 128), seed=5, name=name)
    assert torch.equal(experts.gate_up_proj[2, 48:], torch.from_numpy(expected))


# Plain modules


class Zoo(nn.Module):
    """One of every layer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(40, 30)
        self.bilinear = nn.Bilinear(12, 10, 20)
        self.embedding = nn.Embedding(50, 20, padding_idx=-1)
        self.bag = nn.EmbeddingBag(50, 20, padding_idx=3)
        self.conv1 = nn.Conv1d(8, 16, 5)
        self.conv2 = nn.Conv2d(8, 16, 3, groups=4)
        self.conv3 = nn.Conv3d(4, 8, 3, bias=False)
        self.up1 = nn.ConvTranspose1d(8, 16, 5)
        self.up2 = nn.ConvTranspose2d(8, 12, 3, groups=4)
        self.up3 = nn.ConvTranspose3d(4, 8, 3)
        self.layer_norm = nn.LayerNorm((3, 4))
        self.rms_norm = nn.RMSNorm(7)
        self.group_norm = nn.GroupNorm(2, 6)
        self.batch_norm = nn.BatchNorm2d(5)
        self.sync_norm = nn.SyncBatchNorm(5)
        self.instance_norm = nn.InstanceNorm1d(5, affine=True, track_running_stats=True)
        self.prelu = nn.PReLU(4)
        self.rnn = nn.RNN(20, 16)
        self.lstm = nn.LSTM(20, 16, 2, bidirectional=True, proj_size=8)
        self.gru = nn.GRU(20, 16)
        self.cell = nn.LSTMCell(20, 16)
        self.attention = nn.MultiheadAttention(24, 4, add_bias_kv=True)
        self.cross = nn.MultiheadAttention(24, 4, kdim=10, vdim=12)
        self.conv1d = transformers.pytorch_utils.Conv1D(24, 20)
        self.block = nn.TransformerEncoderLayer(16, 2, 32)


def test_auto_is_what_layers_start_from():
    torch.manual_seed(0)
    fresh, module = Zoo(), poison(Zoo())
    report = initialize_(module)
    assert not report.named("left")
    theirs = tensors(fresh)
    for name, value in tensors(module).items():
        expected = theirs[name]
        if expected.min() == expected.max():
            assert torch.equal(value, expected), name
            continue
        assert torch.isfinite(value).all(), name
        assert abs(value).max() <= 1.0001 * bound(name, module), name
        flat = [tensor.detach().flatten() for tensor in (value, expected)]
        assert scipy.stats.ks_2samp(*flat).pvalue > 1e-5, name
    assert torch.equal(module.embedding.weight[-1], torch.zeros(20))
    assert torch.equal(module.bag.weight[3], torch.zeros(20))


def bound(name, module):
    """The largest value that torch can start a parameter from."""
    path, _, attribute = name.rpartition(".")
    layer = module.get_submodule(path)
    if hasattr(layer, "hidden_size"):
        return 1 / math.sqrt(layer.hidden_size)
    if attribute in ("weight", "bias") and hasattr(layer, "kernel_size"):
        return 1 / math.sqrt(layer.weight[0].numel())
    return 1 / math.sqrt(layer.in_features) if hasattr(layer, "in_features") else 8.0


def test_named_schemes_know_fans_groups_and_parts():
    module = poison(Zoo())
    report = initialize_(module, "xavier", seed=9)
    expected = {
        "conv2.weight": fanin.xavier_uniform((16, 2, 3, 3), groups=4, seed=9, name="conv2.weight"),
        "up2.weight": fanin.xavier_uniform(
            (8, 3, 3, 3), layout="iokk", groups=4, seed=9, name="up2.weight"
        ),
        "conv1d.weight": fanin.xavier_uniform((20, 24), layout="io", seed=9, name="conv1d.weight"),
        "bilinear.weight": fanin.xavier_uniform(
            (20, 12, 10), layout="oii", seed=9, name="bilinear.weight"
        ),
    }
    for name, value in expected.items():
        assert torch.equal(module.get_parameter(name), torch.from_numpy(value)), name
    fused = {
        "attention.in_proj_weight": (("query", "key", "value"), 24),
        "lstm.weight_ih_l0_reverse": (("input", "forget", "cell", "output"), 20),
        "gru.weight_hh_l0": (("reset", "update", "new"), 16),
    }
    for name, (labels, fan_in) in fused.items():
        parts = module.get_parameter(name).chunk(len(labels))
        for part, label in zip(parts, labels, strict=True):
            one = fanin.xavier_uniform((len(part), fan_in), seed=9, name=f"{name}#{label}")
            assert torch.equal(part, torch.from_numpy(one)), (name, label)
    assert {row.dtype for row in report.rows if row.kind == "parameter"} == {"float32"}
    zeros = [name for name in report.named("filled") if "bias" in name and "norm" not in name]
    assert all(not module.get_parameter(name).any() for name in zeros)


def test_values_follow_names_not_order_nor_wrapping():
    def stack():
        return nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))

    plain, wrapped, later = (poison(stack()) for _ in range(3))
    initialize_(plain)
    later = nn.Sequential(*later, poison(nn.Linear(6, 2)))
    initialize_(later)
    assert_equal(tensors(plain), {k: v for k, v in tensors(later).items() if not k.startswith("4")})
    compiled = type("OptimizedModule", (nn.Module,), {})()  # torch.compile would take seconds
    compiled._orig_mod = wrapped
    initialize_(nn.DataParallel(compiled))
    assert_equal(tensors(plain), tensors(wrapped))
    weights = [layer.weight.detach().flatten() for layer in plain]
    correlations = torch.corrcoef(torch.stack(weights)) - torch.eye(4)
    assert abs(correlations).max() < 0.8  # copies of a layer are not copies of its values
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    inner = poison(stack())
    inner[1] = checkpoint_wrapper(inner[1])
    initialize_(inner)
    assert torch.equal(inner[1].weight, plain[1].weight)


def test_tied_parameters_are_filled_once():
    module = nn.ModuleDict({"a": nn.Linear(5, 5), "b": nn.Linear(5, 5), "c": nn.Linear(5, 5)})
    module["b"].weight = module["a"].weight
    module["c"].weight = nn.Parameter(module["a"].weight.data)
    version = module["a"].weight._version
    report = initialize_(poison(module))
    assert report.named("tied") == ["b.weight", "c.weight"]
    assert module["a"].weight._version == version + 2  # the poison, and the fill


def test_every_dtype_and_memory_order():
    dtypes = ["float64", "float32", "float16", "bfloat16", "float8_e5m2"]
    module = nn.ModuleDict({f"in {dtype}": nn.Linear(8, 4) for dtype in dtypes})
    for dtype, layer in zip(dtypes, module.values(), strict=True):
        empty = torch.empty(4, 8, dtype=getattr(torch, dtype))
        layer.weight = nn.Parameter(empty, requires_grad=False)
    module["transposed"] = nn.Linear(8, 4)
    module["transposed"].weight = nn.Parameter(torch.empty(8, 4).t())
    initialize_(module, "bert", seed=4)
    for name, layer in module.items():
        dtype = str(layer.weight.dtype)[6:]
        expected = fanin.normal((4, 8), std=0.02, dtype=dtype, seed=4, name=f"{name}.weight")
        assert layer.weight.float().tolist() == expected.astype("float32").tolist(), name


# What is not touched


def test_loaded_parameters_stay_as_they_are():
    module = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5))
    module[0].weight._is_hf_initialized = True
    module[1].running_var._is_hf_initialized = True
    before = {name: value.clone() for name, value in tensors(poison(module)).items()}
    report = initialize_(module)
    assert set(report.named("kept")) == {"0.weight", "1.running_var"}
    for name in report.named("kept"):
        assert torch.equal(tensors(module)[name].isnan(), before[name].isnan())
    assert not module[0].bias.isnan().any()


def test_a_module_that_is_loaded_is_not_drawn_at_all(monkeypatch):
    module = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
    for parameter in module.parameters():
        parameter._is_hf_initialized = True
    monkeypatch.setattr("fanin.initializers.Initializer.fill", None)
    report = initialize_(module)
    assert {(row.action, row.detail) for row in report.rows} == {("kept", "loaded")}


def test_a_loaded_model_keeps_all_but_its_new_head(tmp_path):
    raw = {"model_type": "bert", "architectures": ["BertModel"], **TINY["bert"]}
    write(make_plan(families.build(raw), seed=7), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = transformers.BertForSequenceClassification.from_pretrained(tmp_path)
    body = {name for name, _ in module.named_parameters() if name.startswith("bert.")}
    for name in body:
        module.get_parameter(name)._is_hf_initialized = True
    module.classifier._is_hf_initialized = module.classifier.weight._is_hf_initialized = False
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    report = initialize_(module, seed=1)
    assert set(report.named("kept")) >= body
    assert all(torch.equal(module.get_parameter(name), before[name]) for name in body)
    assert not torch.equal(module.classifier.weight, before["classifier.weight"])


@pytest.mark.parametrize(
    ("options", "filled"),
    [
        ({"only": "0.*"}, {"0.weight", "0.bias"}),
        ({"skip": ["*.bias", "1.running*"]}, {"0.weight", "1.weight"}),
        ({"only": ["*.bias"], "skip": "1.*"}, {"0.bias"}),
    ],
)
def test_only_and_skip(options, filled):
    module = poison(nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)))
    report = initialize_(module, **options)
    assert set(report.named("filled")) == filled
    for name, value in tensors(module).items():
        touched = name in report.named("filled") + report.named("recomputed")
        assert touched is not bool((value.isnan() | (value == 77)).any()), name


def test_an_override_of_what_is_kept():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[0].weight._is_hf_initialized = True
    with pytest.raises(ValueError, match=r"'0.weight' .* 0.weight is kept \(loaded\)"):
        initialize_(module, overrides={"0.weight": "ones"})
    with pytest.raises(ValueError, match=r"'1.\*' .* 1.weight is kept \(not in only\)"):
        initialize_(module, only="0.*", overrides={"1.*": "ones"})
    initialize_(module, overrides={"*.weight": "ones"})
    assert module[1].weight.eq(1).all()
    assert not module[0].weight.eq(1).any()


@pytest.mark.parametrize("weight", [None, nn.Parameter(torch.zeros(9))])
def test_a_layer_whose_weight_is_packed_or_elsewhere_is_not_that_layer(weight):
    module = nn.Linear(3, 3)
    module.weight = weight
    left = ["bias"] if weight is None else ["weight", "bias"]
    with pytest.raises(InitializationError, match=f"unmatched.*: {', '.join(left)}"):
        initialize_(module)
    assert initialize_(module, overrides={"*": "ones"}).named("filled") == left


def test_an_override_decides_last():
    module = poison(nn.Sequential(nn.Linear(5, 5), nn.MultiheadAttention(4, 1)))
    rules = {"*weight": "ones", "1.in_proj_weight#key": "zeros"}
    report = initialize_(module, "xavier", overrides=rules)
    assert module[0].weight.eq(1).all()
    assert module[1].in_proj_weight[:4].eq(1).all()
    assert module[1].in_proj_weight[4:8].eq(0).all()
    assert "query=ones, key=zeros, value=ones" in str(report)


def test_a_module_without_parameters_is_left():
    assert initialize_(nn.ReLU()).rows == ()
    module = nn.Module()
    module.register_buffer("mask", torch.ones(2, 2), persistent=False)
    report = initialize_(module)
    assert [(row.name, row.action, row.detail) for row in report.rows] == [
        ("mask", "left", "not saved in checkpoints")
    ]
    assert str(report).endswith("Module, scheme auto, seed 0: 1 left")
    empty = nn.Linear(3, 3, bias=False)
    empty.weight = nn.Parameter(torch.empty(0, 3))
    assert initialize_(empty).rows[0].detail == "no elements"


def test_buffers_that_a_subclass_of_a_norm_adds_are_left():
    module = nn.BatchNorm1d(3)
    module.register_buffer("mask", torch.full((3,), 7.0))
    module.running_mean.fill_(NAN)
    module.running_var.fill_(NAN)
    report = initialize_(module)
    assert report.named("left") == ["mask"]
    assert module.mask.eq(7).all()
    assert module.running_mean.eq(0).all()
    assert module.running_var.eq(1).all()


# Errors, before anything is written


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.gamma = nn.Parameter(torch.full((3,), NAN))
        self.token = nn.Parameter(torch.full((1, 3), NAN))


def test_parameters_without_a_rule_are_listed():
    module = poison(Own())
    for scheme in ("auto", "xavier"):
        with pytest.raises(InitializationError, match=r"Own.*\n.*unmatched.*: gamma, token") as e:
            initialize_(module, scheme)
        assert e.value.unmatched == ("gamma", "token")
    assert module.linear.weight.isnan().all()
    report = initialize_(module, overrides={"gamma": "ones"}, skip="token")
    assert report.named("kept") == ["token"]
    assert module.gamma.eq(1).all()


def expanded():
    module = nn.Linear(3, 3)
    module.weight = nn.Parameter(torch.zeros(1, 3).expand(3, 3))
    return module


def integers():
    module = nn.Linear(3, 3)
    module.weight = nn.Parameter(torch.zeros(3, 3, dtype=torch.int8), requires_grad=False)
    return module


def sparse():
    module = nn.Linear(3, 3)
    module.weight = nn.Parameter(torch.eye(3).to_sparse())
    return module


def inference():
    with torch.inference_mode():
        return nn.Linear(3, 3)


def overlapping():
    module = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    memory = torch.zeros(12)
    module["a"].weight = nn.Parameter(memory[:9].view(3, 3))
    module["b"].weight = nn.Parameter(memory[3:].view(3, 3))
    return module


def transposed():
    module = nn.ModuleDict({"a": nn.Linear(3, 4), "b": nn.Linear(4, 3)})
    module["b"].weight = nn.Parameter(module["a"].weight.detach().T)
    return module


def wrapped():
    module = nn.Linear(3, 3)
    module.weight = nn.Parameter(TwoTensor(torch.zeros(3, 3), torch.zeros(3, 3)))
    return module


def placeholder():
    module = nn.Linear(3, 3)
    module.weight = nn.Parameter(torch.empty(0))
    module.weight.ds_shape = (3, 3)
    return module


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(3, 3, device="meta"), r"2 tensors are on the meta device.*to_empty"),
        (lambda: nn.Linear(3, 3, dtype=torch.complex64), "weight has the dtype complex64; allowed"),
        (integers, "weight has the dtype int8; allowed: float64, .*skip="),
        (expanded, "weight cannot be filled: elements of out overlap"),
        (sparse, "weight cannot be filled: .*dense"),
        (inference, "weight was made in inference mode"),
        (lambda: nn.LazyLinear(3), "weight has no shape yet"),
        (overlapping, "twice .*: a.weight, b.weight"),
        (wrapped, "weight is a TwoTensor, not plain memory"),
        (transposed, "twice .*: a.weight, b.weight"),
        (placeholder, r"weight is an empty placeholder of DeepSpeed for the shape \(3, 3\)"),
    ],
)
def test_what_cannot_be_filled(make, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex and lazy modules warn
        module = make()
    with pytest.raises(ValueError, match=message):
        initialize_(module)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scheme": "xaver"}, ValueError, "unknown scheme 'xaver'; did you mean 'xavier'"),
        ({"seed": -1}, ValueError, "seed must be from 0"),
        ({"only": "wieght"}, ValueError, "only='wieght' matches no parameter and no buffer"),
        ({"skip": [3]}, TypeError, "skip must be patterns, as strings, got 3"),
        ({"overrides": {"wieght": "ones"}}, ValueError, "'wieght' matches no tensor.*weight"),
        ({"overrides": {"weight": "one"}}, ValueError, "override 'weight': unknown"),
        ({"overrides": "*=ones"}, TypeError, r"overrides must be .* pairs, got '\*=ones'"),
        ({"overrides": [("weight",)]}, TypeError, r"overrides must be .* pairs, got .*'weight',"),
        ({"overrides": None}, TypeError, "overrides must be .* pairs, got None"),
        ({"only": 5}, TypeError, "only must be a pattern or patterns, as strings, got 5"),
        ({"threads": 0}, ValueError, "threads must be from 1"),
    ],
)
def test_wrong_arguments(options, error, message):
    module = poison(nn.Linear(3, 3))
    with pytest.raises(error, match=message):
        initialize_(module, **options)
    assert module.weight.isnan().all()
    with pytest.raises(TypeError, match=r"module must be a torch\.nn\.Module, got Par"):
        initialize_(module.weight, **options)


def test_flat_parameters_of_fsdp1_are_refused():
    class FullyShardedDataParallel(nn.Module):
        pass

    with pytest.raises(ValueError, match=r"FSDP1.*fully_shard"):
        take_inventory(nn.Sequential(FullyShardedDataParallel()))


def test_autograd_sees_the_change():
    module = nn.Linear(3, 3)
    loss = module(torch.ones(3, requires_grad=True)).sum()
    initialize_(module)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
