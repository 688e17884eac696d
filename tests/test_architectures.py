"""Any architecture of transformers: what `save_pretrained` writes, with `initialize_`'s bits."""

import json
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open

from fanin import cli, families
from fanin.checkpoint import write
from fanin.checkpoint.verify import verify
from fanin.plan import make_plan
from fanin.torch import initialize_
from fanin.torch.constructed import constructed_values
from test_torch_initialize import assert_equal, from_config, poison, tensors

SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
SEQ2SEQ = {
    "vocab_size": 96,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 20,
}
TINY = {
    "AlbertForMaskedLM": ("albert", {**SIZES, "embedding_size": 16}),
    "BertForSequenceClassification": ("bert", SIZES),
    "BlenderbotForConditionalGeneration": ("blenderbot", SEQ2SEQ),
    "CohereForCausalLM": ("cohere", SIZES),
    "ConvNextForImageClassification": (
        "convnext",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]},
    ),
    "DebertaV2ForMaskedLM": ("deberta-v2", SIZES),
    "FunnelForMaskedLM": (
        "funnel",
        {"vocab_size": 96, "d_model": 32, "d_inner": 48, "n_head": 4, "d_head": 8},
    ),
    "GlmForCausalLM": ("glm", {**SIZES, "head_dim": 8}),
    "JambaForCausalLM": (
        "jamba",
        {
            **SIZES,
            "num_experts": 2,
            "mamba_dt_rank": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
        },
    ),
    "MPNetForMaskedLM": ("mpnet", SIZES),
    "MptForCausalLM": ("mpt", {"vocab_size": 96, "d_model": 32, "n_heads": 4, "n_layers": 2}),
    "NomicBertForMaskedLM": ("nomic_bert", SIZES),
    "PegasusForConditionalGeneration": ("pegasus", SEQ2SEQ),
    "PhiForCausalLM": ("phi", SIZES),
    "PhimoeForCausalLM": ("phimoe", {**SIZES, "num_local_experts": 3}),
    "ResNetForImageClassification": (
        "resnet",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    ),
    "RwkvForCausalLM": ("rwkv", {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2}),
    "SegformerForSemanticSegmentation": (
        "segformer",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "decoder_hidden_size": 24},
    ),
    "SwinModel": ("swin", {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2]}),
    "VaultGemmaForCausalLM": ("vaultgemma", {**SIZES, "head_dim": 8}),
    "XLNetLMHeadModel": (
        "xlnet",
        {"vocab_size": 96, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    ),
}


def raw_of(architecture, **fields):
    model_type, sizes = TINY[architecture]
    return {"model_type": model_type, "architectures": [architecture], **sizes, **fields}


def in_file(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize("architecture", TINY)
def test_tensors_and_bits(architecture, tmp_path):
    """Those of the module that `initialize_` filled, as transformers saves it."""
    scheme = "auto" if len(architecture) % 2 else "xavier"
    raw = raw_of(architecture, dtype="bfloat16")
    plan = make_plan(families.build(raw), scheme=scheme, seed=3)
    write(plan, tmp_path / "ours")
    module = from_config(raw)
    initialize_(module, scheme, seed=3)
    module.save_pretrained(tmp_path / "theirs")
    ours, theirs = (in_file(tmp_path / name / "model.safetensors") for name in ("ours", "theirs"))
    assert_equal(ours, theirs)
    assert {k: v.dtype for k, v in ours.items()} == {k: v.dtype for k, v in theirs.items()}
    assert plan.num_parameters == sum(p.numel() for p in module.parameters())
    assert all(torch.isfinite(value).all() for value in ours.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, info = getattr(transformers, architecture).from_pretrained(
            tmp_path / "ours", output_loading_info=True
        )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]


def test_fused_and_split_tensors_are_keyed_by_their_names_in_files():
    names = {
        "PhimoeForCausalLM": "model.layers.1.block_sparse_moe.experts.2.w3.weight",
        "NomicBertForMaskedLM": "nomic_bert.encoder.layers.1.attn.Wqkv.weight#key",
        "JambaForCausalLM": "model.layers.1.self_attn.k_proj.weight",
    }
    for architecture, name in names.items():
        model = families.build(raw_of(architecture))
        found = {part.name: part for tensor in model.tensors for part in tensor.parts}
        assert found[name].role in ("mlp.in", "attention.key")
        assert found[name].layer == 1
        assert found[name].branches == 4


def test_roles_are_told_by_names():
    roles = {
        tensor.name: tensor.role
        for architecture in ("AlbertForMaskedLM", "BlenderbotForConditionalGeneration")
        for tensor in families.build(raw_of(architecture)).tensors
    }
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    assert roles[f"{layer}attention.query.weight"] == "attention.query"
    assert roles[f"{layer}attention.dense.weight"] == "attention.out"
    assert roles["model.decoder.layers.1.fc1.weight"] == "mlp.in"
    assert roles["model.decoder.layers.1.encoder_attn.out_proj.weight"] == "attention.out"


def build_without_init(raw):
    config = transformers.AutoConfig.for_model(**raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers.PreTrainedModel, "init_weights", lambda self: None)
        return getattr(transformers, raw["architectures"][0])._from_config(config)


@pytest.mark.parametrize(
    "architecture", ["ConvNextForImageClassification", "SwinModel", "MPNetForMaskedLM"]
)
def test_what_constructors_give_is_known(architecture):
    """And only that: values of two builds differ where torch draws."""
    raw = raw_of(architecture)
    torch.manual_seed(0)
    one, other = build_without_init(raw), build_without_init(raw)
    known, drawn = constructed_values(one)
    assert not drawn
    for name, value in known.items():
        assert torch.equal(tensors(one)[name], value), name
    constants = [
        name
        for name, value in tensors(one).items()
        if torch.equal(value, tensors(other)[name]) and value.unique().numel() > 1
    ]
    assert set(constants) <= known.keys() | {"mpnet.embeddings.word_embeddings.weight"}


def test_scales_and_tokens_of_constructors(tmp_path, monkeypatch):
    class Made(transformers.MPNetModel):
        def __init__(self, config):
            super().__init__(config)
            self.scale = torch.nn.Parameter(torch.tensor(2.5))
            self.slopes = torch.nn.Parameter((torch.arange(4.0) + 1).log().flip(0)[:3])
            self.token = torch.nn.Parameter(torch.randn(1, 400) * 0.5)
            table = torch.zeros(3, 2, dtype=torch.long)
            table[1:] += torch.arange(2)
            table[1] = 7
            self.register_buffer("table", table)
            self.unknown = torch.nn.Parameter(torch.empty(2))

    Made.__module__ = transformers.MPNetModel.__module__
    monkeypatch.setattr("fanin.torch.architectures._class", lambda *_: Made)
    model = families.build(raw_of("MPNetForMaskedLM"))
    config = transformers.AutoConfig.for_model(**raw_of("MPNetForMaskedLM"))
    with torch.device("meta"):
        module = Made._from_config(config)
    poison(module.to_empty(device="cpu"))
    with pytest.raises(ValueError, match=r"^unknown: nothing says"):
        make_plan(model)
    rules = {"unknown": "zeros"}
    plan = make_plan(model, scheme="xavier", overrides=rules)
    write(plan, tmp_path)
    stored = in_file(tmp_path / "model.safetensors")
    assert stored["scale"] == 2.5
    assert torch.equal(stored["slopes"], torch.tensor([4.0, 3.0, 2.0]).log())
    assert 0.4 < stored["token"].std() < 0.6
    assert torch.equal(stored["table"], torch.tensor([[0, 0], [7, 7], [0, 1]]))
    initialize_(module, "xavier", overrides=rules)
    for name in ("scale", "slopes", "token", "table", "encoder.layer.0.attention.attn.q.weight"):
        assert torch.equal(tensors(module)[name], stored[name]), name


def test_buffers_are_stored_with_their_values(tmp_path):
    plan = make_plan(families.build(raw_of("ResNetForImageClassification")), dtype="float16")
    write(plan, tmp_path)
    stored = in_file(tmp_path / "model.safetensors")
    norm = "resnet.embedder.embedder.normalization."
    assert stored[f"{norm}num_batches_tracked"].dtype == torch.int64
    assert stored[f"{norm}num_batches_tracked"] == 0
    assert (stored[f"{norm}running_var"] == 1).all()
    assert verify(tmp_path).ok


def test_without_transformers_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(families, "_has_transformers", lambda: False)
    for raw in (raw_of("MPNetForMaskedLM"), raw_of("BertForSequenceClassification")):
        with pytest.raises(ValueError, match=r'^a\.json: unknown .*pip install "fanin\[hf\]"'):
            families.build(raw, "a.json")


def test_a_family_wins(monkeypatch):
    monkeypatch.setattr("fanin.torch.architectures.model_of_config", None)
    assert families.build({"model_type": "gpt2"}).family == "gpt2"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "mpnot"}, "unknown model_type 'mpnot'; did you mean 'mpnet'"),
        (
            {"architectures": ["MPNetForGlory"]},
            "unknown architecture 'MPNetForGlory'; allowed: MPNetForM",
        ),
        ({"architectures": ["Path"]}, "unknown architecture 'Path'; .*allowed: .*MPNetModel"),
        ({"architectures": ["MPNetConfig"]}, "unknown architecture 'MPNetConfig'"),
        ({"architectures": ["CohereModel"]}, "architectures .*: is not of model_type 'mpnet'"),
        ({"architectures": "MPNetModel"}, 'architectures is "MPNetModel": must be a list'),
        ({"hidden_size": "many"}, "transformers (refuses|cannot build)"),
        ({"hidden_act": "sharp"}, "transformers cannot build .*sharp"),
        ({"dtype": "int4"}, "unknown dtype 'int4'"),
    ],
)
def test_configs_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=rf"^a\.json: .*{message}") as error:
        families.build(raw_of("MPNetForMaskedLM", **fields), "a.json")
    assert "\n" not in str(error.value)


def test_code_of_others_is_not_run(tmp_path):
    (tmp_path / "evil.py").write_text("raise SystemExit('this was run')")
    remote = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    raw = raw_of("MPNetForMaskedLM", auto_map=remote, _attn_implementation="evil/kernel")
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert families.load(tmp_path).family == "transformers"


def test_what_nobody_initializes_is_an_error_that_lists_it(monkeypatch):
    head = transformers.models.mpnet.modeling_mpnet.MPNetLMHead
    own = head.__init__

    def with_temperature(self, config):
        own(self, config)
        self.temperature = torch.nn.Parameter(torch.empty(3))

    monkeypatch.setattr(head, "__init__", with_temperature)
    model = families.build(raw_of("MPNetForMaskedLM"))
    with pytest.raises(ValueError, match=r"^lm_head.temperature: nothing says .* --set"):
        make_plan(model)
    assert make_plan(model, overrides={"*.temperature": "zeros"})


def test_no_weight_is_in_memory():
    pages = Path("/proc/self/statm")
    before = int(pages.read_text().split()[1])
    raw = raw_of("CohereForCausalLM", hidden_size=8192, num_hidden_layers=40, vocab_size=256000)
    raw |= {"intermediate_size": 22528, "num_attention_heads": 64}
    assert make_plan(families.build(raw)).num_parameters > 20e9
    assert (int(pages.read_text().split()[1]) - before) * 4096 < 300e6


def test_on_the_command_line(tmp_path, capsys):
    raw = raw_of("PegasusForConditionalGeneration")
    (tmp_path / "given.json").write_text(json.dumps(raw))
    given = [str(tmp_path / "given.json")]
    assert cli.main(["init", *given, str(tmp_path / "out"), "--scheme", "bert"]) == 0
    assert "PegasusForConditionalGeneration: " in capsys.readouterr().out
    assert verify(tmp_path / "out").ok
    assert cli.main(["plan", *given]) == 0
    assert "model.encoder.embed_positions.weight" in capsys.readouterr().out
