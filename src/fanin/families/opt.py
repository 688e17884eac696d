"""OPT (Zhang et al. 2022): learned positions, layer norms, dense MLP, a tied head.

Two rows of the positions lie before the first position; the row of the padding token is zero. The
embeddings may be narrower than the model, between two projections. Initialization as in
transformers: N(0, init_std^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families import bart
from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, flag, number, size, text, token
from fanin.families.layers import embedding, linear, norm, repeat
from fanin.model import Tensor

FIELDS = {
    **COMMON,
    "initializer_range": number(0.02, "init_std", "initializer_range"),
    "tie_word_embeddings": flag(True),
    "vocab_size": size(50272),
    "hidden_size": size(768),
    "num_hidden_layers": count(12),
    "num_attention_heads": size(12),
    "ffn_dim": size(3072),
    "max_position_embeddings": size(2048),
    "word_embed_proj_dim": size(None, null=lambda config: config.hidden_size),
    "hidden_act": text("relu", "activation_function"),
    "pad_token_id": token(1),
    "do_layer_norm_before": flag(True),
    "remove_final_layer_norm": flag(False, "_remove_final_layer_norm"),
    "enable_bias": flag(True),
    "layer_norm_elementwise_affine": flag(True),
}

OFFSET = 2
"""Rows of the positions before the first one."""


def causal_lm(c: Config) -> Iterator[Tensor]:
    """OPTForCausalLM."""
    yield from body(c, "model.")
    yield from linear("lm_head", c.vocab_size, c.word_embed_proj_dim, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """OPTModel."""
    d, width, at = c.hidden_size, c.word_embed_proj_dim, f"{prefix}decoder."
    positions = OFFSET + c.max_position_embeddings
    yield from embedding(f"{at}embed_tokens", c.vocab_size, width, padding=c.pad_token_id)
    yield from embedding(f"{at}embed_positions", positions, d, "embedding.position")
    if width != d:
        yield from linear(f"{at}project_out", width, d, "dense", bias=False)
        yield from linear(f"{at}project_in", d, width, "dense", bias=False)
    if c.do_layer_norm_before and not c.remove_final_layer_norm:
        yield from layer_norm(c, f"{at}final_layer_norm")
    yield from repeat(f"{at}layers", c.num_hidden_layers, partial(block, c))


def block(c: Config, at: str) -> Iterator[Tensor]:
    """OPTDecoderLayer."""
    d, inner, bias = c.hidden_size, c.ffn_dim, c.enable_bias
    yield from linear(f"{at}self_attn.k_proj", d, d, "attention.key", bias=bias)
    yield from linear(f"{at}self_attn.v_proj", d, d, "attention.value", bias=bias)
    yield from linear(f"{at}self_attn.q_proj", d, d, "attention.query", bias=bias)
    yield from linear(f"{at}self_attn.out_proj", d, d, "attention.out", bias=bias)
    yield from layer_norm(c, f"{at}self_attn_layer_norm")
    yield from linear(f"{at}fc1", inner, d, "mlp.in", bias=bias)
    yield from linear(f"{at}fc2", d, inner, "mlp.out", bias=bias)
    yield from layer_norm(c, f"{at}final_layer_norm")


def layer_norm(c: Config, name: str) -> Iterator[Tensor]:
    """A layer norm, which may have no parameters."""
    if c.layer_norm_elementwise_affine:
        yield from norm(name, c.hidden_size)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")
    c.require_row("pad_token_id", "vocab_size")


FAMILIES = [
    Family(
        name="opt",
        model_type="opt",
        fields=FIELDS,
        architectures={"OPTForCausalLM": causal_lm, "OPTModel": body},
        tied={"lm_head.weight": "model.decoder.embed_tokens.weight"},
        auto=bart.auto,
        check=check,
    )
]
