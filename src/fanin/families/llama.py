"""Llama (Touvron et al. 2023) and its close kin Mistral, Qwen2, Qwen3 and Granite.

Pre-norm with RMS norms, rotary positions (nothing stored), gated MLP, grouped key and value heads.
They differ in defaults, in which projections have a bias, and in the norms of queries and keys.
Initialization as in transformers: N(0, initializer_range^2) everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, gated_mlp, projections
from fanin.families.fields import Config, fixed, flag, size
from fanin.families.layers import rms_norm
from fanin.model import Tensor

GRANITE = {
    **FIELDS,
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
    "mlp_bias": flag(False),
}
LLAMA = {**GRANITE, "heads_fill_width": fixed(True)}
MISTRAL = {
    **FIELDS,
    "intermediate_size": size(14336),
    "num_key_value_heads": size(8, null=lambda c: c.num_attention_heads),
}
QWEN2 = {
    **FIELDS,
    "vocab_size": size(151936),
    "intermediate_size": size(22016),
    "num_key_value_heads": size(32, null=lambda c: c.num_attention_heads),
    "qkv_bias": fixed(True),
}
QWEN3 = {
    **QWEN2,
    "head_dim": size(128),
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
    "qk_norm": fixed(True),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """LlamaDecoderLayer."""
    yield from projections(c, f"{at}self_attn.")
    if c.qk_norm:
        yield from rms_norm(f"{at}self_attn.q_norm", c.head_dim)
        yield from rms_norm(f"{at}self_attn.k_norm", c.head_dim)
    yield from gated_mlp(c, f"{at}mlp.")
    yield from rms_norm(f"{at}input_layernorm", c.hidden_size)
    yield from rms_norm(f"{at}post_attention_layernorm", c.hidden_size)


FAMILIES = [
    family("llama", title, model_type, fields, block)
    for title, model_type, fields in (
        ("Granite", "granite", GRANITE),
        ("Llama", "llama", LLAMA),
        ("Mistral", "mistral", MISTRAL),
        ("Qwen2", "qwen2", QWEN2),
        ("Qwen3", "qwen3", QWEN3),
    )
]
