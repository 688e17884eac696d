"""Llama (Touvron et al. 2023) and its close kin Mistral, Qwen2 and Qwen3.

Pre-norm with RMS norms, rotary positions (nothing stored), gated MLP, grouped key and value heads.
They differ in defaults, in which projections have a bias, and in the norms of queries and keys.
Initialization as in transformers: N(0, initializer_range^2) everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, Field, count, fixed, flag, size, text, token
from fanin.families.layers import embedding, linear, norm, repeat
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS: dict[str, Field] = {
    **COMMON,
    "vocab_size": size(32000),
    "hidden_size": size(4096),
    "intermediate_size": size(11008),
    "num_hidden_layers": count(32),
    "num_attention_heads": size(32),
    "num_key_value_heads": size(None, null=lambda c: c.num_attention_heads),
    "head_dim": size(None, null=lambda c: c.hidden_size // c.num_attention_heads),
    "hidden_act": text("silu"),
    "pad_token_id": token(None),
    "qkv_bias": fixed(False),
    "output_bias": fixed(False),
    "mlp_bias": fixed(False),
    "qk_norm": fixed(False),
    "heads_fill_width": fixed(False),
}
LLAMA = {
    **FIELDS,
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
    "mlp_bias": flag(False),
    "heads_fill_width": fixed(True),
}
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


def causal_lm(c: Config) -> Iterator[Tensor]:
    """LlamaForCausalLM."""
    yield from body(c, "model.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """LlamaModel."""
    yield from embedding(
        f"{prefix}embed_tokens", c.vocab_size, c.hidden_size, padding=c.pad_token_id
    )
    yield from repeat(f"{prefix}layers", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}norm", c.hidden_size, bias=False)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """LlamaDecoderLayer."""
    d, inner = c.hidden_size, c.intermediate_size
    queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    yield from linear(f"{at}self_attn.q_proj", queries, d, "attention.query", bias=c.qkv_bias)
    yield from linear(f"{at}self_attn.k_proj", keys, d, "attention.key", bias=c.qkv_bias)
    yield from linear(f"{at}self_attn.v_proj", keys, d, "attention.value", bias=c.qkv_bias)
    yield from linear(f"{at}self_attn.o_proj", d, queries, "attention.out", bias=c.output_bias)
    if c.qk_norm:
        yield from norm(f"{at}self_attn.q_norm", c.head_dim, bias=False)
        yield from norm(f"{at}self_attn.k_norm", c.head_dim, bias=False)
    yield from linear(f"{at}mlp.gate_proj", inner, d, "mlp.gate", bias=c.mlp_bias)
    yield from linear(f"{at}mlp.up_proj", inner, d, "mlp.in", bias=c.mlp_bias)
    yield from linear(f"{at}mlp.down_proj", d, inner, "mlp.out", bias=c.mlp_bias)
    yield from norm(f"{at}input_layernorm", d, bias=False)
    yield from norm(f"{at}post_attention_layernorm", d, bias=False)


def auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width (unless their size is given) or the groups."""
    if c.heads_fill_width or c.head_dim == c.hidden_size // c.num_attention_heads:
        c.require_multiple("hidden_size", of="num_attention_heads")
    c.require_multiple("num_attention_heads", of="num_key_value_heads")
    c.require_row("pad_token_id", "vocab_size")


FAMILIES = [
    Family(
        name="llama",
        model_type=model_type,
        fields=fields,
        architectures={f"{title}ForCausalLM": causal_lm, f"{title}Model": body},
        tied={"lm_head.weight": "model.embed_tokens.weight"},
        auto=auto,
        check=check,
    )
    for title, model_type, fields in (
        ("Llama", "llama", LLAMA),
        ("Mistral", "mistral", MISTRAL),
        ("Qwen2", "qwen2", QWEN2),
        ("Qwen3", "qwen3", QWEN3),
    )
]
