"""DeepSeek-V2 and V3 (DeepSeek-AI 2024): latent attention, and experts after the first layers.

Keys and values come from one latent vector (and queries from another, unless `q_lora_rank` is
null), each with a norm. What makes the latent and the rotary key lies in one tensor, and what makes
keys and values of it in another, a head at a time; they are two matrices each here (V2's equations
9 to 19: W^DKV and W^KR, W^UK and W^UV). Routers are stored in float32, V3's with a buffer of
biases that balance the load. Initialization as in transformers: N(0, initializer_range^2), routers
included, such biases 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fanin.families.decoder import FIELDS, family, gated_mlp
from fanin.families.experts import auto, experts, router
from fanin.families.fields import Config, count, fixed, flag, natural, size
from fanin.families.layers import fused_linear, linear, number, rms_norm, vector
from fanin.model import Tensor

DEEPSEEK_V2 = {
    **{name: field for name, field in FIELDS.items() if not name.startswith(("head", "num_key"))},
    "vocab_size": size(102400),
    "attention_bias": flag(False),
    "mlp_bias": flag(False),
    "kv_lora_rank": size(512),
    "q_lora_rank": size(1536, null=lambda _: None),
    "qk_nope_head_dim": size(128),
    "qk_rope_head_dim": size(64),
    "v_head_dim": size(128),
    "first_k_dense_replace": natural(0),
    "experts": size(64, "n_routed_experts", "num_experts"),
    "n_shared_experts": natural(2),
    "moe_intermediate_size": size(1407),
    "correction_bias": fixed(False),
}
DEEPSEEK_V3 = {
    **DEEPSEEK_V2,
    "vocab_size": size(129280),
    "hidden_size": size(7168),
    "intermediate_size": size(18432),
    "num_hidden_layers": count(61),
    "num_attention_heads": size(128),
    "mlp_bias": fixed(False),
    "first_k_dense_replace": natural(3),
    "experts": size(256, "n_routed_experts", "num_local_experts"),
    "n_shared_experts": natural(1),
    "moe_intermediate_size": size(2048),
    "correction_bias": fixed(True),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """DeepseekV2DecoderLayer, DeepseekV3DecoderLayer."""
    dense = number(at) < c.first_k_dense_replace
    yield from attention(c, f"{at}self_attn.")
    yield from gated_mlp(c, f"{at}mlp.") if dense else mlp(c, f"{at}mlp.")
    yield from rms_norm(f"{at}input_layernorm", c.hidden_size)
    yield from rms_norm(f"{at}post_attention_layernorm", c.hidden_size)


def attention(c: Config, at: str) -> Iterator[Tensor]:
    """DeepseekV2Attention, DeepseekV3Attention."""
    d, heads, biased = c.hidden_size, c.num_attention_heads, c.attention_bias
    queries = heads * (c.qk_nope_head_dim + c.qk_rope_head_dim)
    if c.q_lora_rank is None:
        yield from linear(f"{at}q_proj", queries, d, "attention.query", bias=False)
    else:
        rank = c.q_lora_rank
        yield from linear(f"{at}q_a_proj", rank, d, "attention.query.down", bias=biased)
        yield from rms_norm(f"{at}q_a_layernorm", rank)
        yield from linear(f"{at}q_b_proj", queries, rank, "attention.query.up", bias=False)
    rank = c.kv_lora_rank
    yield from fused_linear(
        f"{at}kv_a_proj_with_mqa",
        {"latent": rank, "key": c.qk_rope_head_dim},
        d,
        {"latent": "attention.latent.down", "key": "attention.key.rotary"},
        bias=biased,
    )
    yield from rms_norm(f"{at}kv_a_layernorm", rank)
    yield from fused_linear(
        f"{at}kv_b_proj",
        {"key": heads * c.qk_nope_head_dim, "value": heads * c.v_head_dim},
        rank,
        {"key": "attention.key.up", "value": "attention.value.up"},
        bias=False,
        heads=heads,
    )
    yield from linear(f"{at}o_proj", d, heads * c.v_head_dim, "attention.out", bias=biased)


def mlp(c: Config, at: str) -> Iterator[Tensor]:
    """DeepseekV2Moe, DeepseekV3MoE."""
    d, inner = c.hidden_size, c.moe_intermediate_size
    yield from experts(f"{at}experts.", c.experts, inner, d)
    yield from router(f"{at}gate", c.experts, d, dtype="float32")
    if c.correction_bias:
        bias = vector(f"{at}gate.e_score_correction_bias", c.experts, "bias.correction")
        yield replace(bias, dtype="float32", buffer=True)
    yield from gated_mlp(c, f"{at}shared_experts.", inner * c.n_shared_experts)


def check(c: Config) -> None:
    """Refuse a padding token beyond the vocabulary."""
    c.require_row("pad_token_id", "vocab_size")


def check_v2(c: Config) -> None:
    """Refuse what transformers refuses too: heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")
    check(c)


FAMILIES = [
    family("deepseek", title, model_type, fields, block, auto=auto, check=check)
    for title, model_type, fields, check in (
        ("DeepseekV2", "deepseek_v2", DEEPSEEK_V2, check_v2),
        ("DeepseekV3", "deepseek_v3", DEEPSEEK_V3, check),
    )
]
