"""Any architecture of transformers: what `save_pretrained` writes, with `initialize_`'s bits."""

import warnings

import pytest
import torch
import transformers
from safetensors import safe_open

from fanin import families
from fanin.checkpoint import write
from fanin.plan import make_plan
from fanin.torch import initialize_
from test_torch_initialize import assert_equal, from_config

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
    "ElectraForPreTraining": ("electra", {**SIZES, "embedding_size": 16}),
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
