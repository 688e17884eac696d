"""Qwen1.5-MoE, Qwen2-MoE and Qwen3-MoE (Qwen Team 2024, 2025): experts in some of the layers.

Layers in `mlp_only_layers`, and those that `decoder_sparse_step` skips, have a dense MLP. Qwen2-MoE
adds an expert that every token uses, times the sigmoid of a gate. Initialization as in
transformers: N(0, initializer_range^2), routers included.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, gated_mlp, projections
from fanin.families.experts import auto, experts, router
from fanin.families.fields import Config, count, fixed, flag, indices, natural, size
from fanin.families.layers import linear, number, rms_norm
from fanin.model import Tensor

QWEN2_MOE = {
    **FIELDS,
    "vocab_size": size(151936),
    "hidden_size": size(2048),
    "intermediate_size": size(5632),
    "num_hidden_layers": count(24),
    "num_attention_heads": size(16),
    "num_key_value_heads": size(16),
    "qkv_bias": flag(True),
    "experts": natural(60, "num_experts"),
    "moe_intermediate_size": size(1408),
    "shared_expert_intermediate_size": natural(5632),
    "shared_expert": fixed(True),
    "decoder_sparse_step": size(1),
    "mlp_only_layers": indices(),
}
QWEN3_MOE = {
    **QWEN2_MOE,
    "intermediate_size": size(6144),
    "num_attention_heads": size(32),
    "num_key_value_heads": size(4),
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
    "qk_norm": fixed(True),
    "experts": natural(128, "num_experts", "num_local_experts"),
    "moe_intermediate_size": size(768),
    "shared_expert_intermediate_size": fixed(None),
    "shared_expert": fixed(False),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """Qwen2MoeDecoderLayer, Qwen3MoeDecoderLayer."""
    yield from projections(c, f"{at}self_attn.")
    if c.qk_norm:
        yield from rms_norm(f"{at}self_attn.q_norm", c.head_dim)
        yield from rms_norm(f"{at}self_attn.k_norm", c.head_dim)
    yield from mlp(c, f"{at}mlp.") if is_sparse(c, number(at)) else gated_mlp(c, f"{at}mlp.")
    yield from rms_norm(f"{at}input_layernorm", c.hidden_size)
    yield from rms_norm(f"{at}post_attention_layernorm", c.hidden_size)


def is_sparse(c: Config, layer: int) -> bool:
    """Return whether a layer has experts."""
    return (
        c.experts > 0
        and layer not in c.mlp_only_layers
        and (layer + 1) % c.decoder_sparse_step == 0
    )


def mlp(c: Config, at: str) -> Iterator[Tensor]:
    """Qwen2MoeSparseMoeBlock, Qwen3MoeSparseMoeBlock."""
    d = c.hidden_size
    scores = router(f"{at}gate", c.experts, d)
    routed = experts(f"{at}experts.", c.experts, c.moe_intermediate_size, d)
    if not c.shared_expert:
        yield from routed
        yield from scores
        return
    yield from scores
    yield from routed
    yield from gated_mlp(c, f"{at}shared_expert.", c.shared_expert_intermediate_size)
    yield from linear(f"{at}shared_expert_gate", 1, d, "router.shared", bias=False)


FAMILIES = [
    family("qwen_moe", title, model_type, fields, block, auto=auto)
    for title, model_type, fields in (
        ("Qwen2Moe", "qwen2_moe", QWEN2_MOE),
        ("Qwen3Moe", "qwen3_moe", QWEN3_MOE),
    )
]
