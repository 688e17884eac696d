"""Gemma 1, 2 and 3 (Gemma Team 2024, 2025): Llama with norms that multiply by 1 + weight.

Such a norm does nothing at a weight of 0, which is where it starts. Gemma 2 has a norm after each
branch as well, Gemma 3 also norms of queries and keys; of Gemma 3 only the text model is here.
Initialization as in transformers: N(0, initializer_range^2), norms 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, gated_mlp, projections
from fanin.families.fields import Config, count, fixed, flag, size, text, token
from fanin.families.layers import offset_norm
from fanin.model import Tensor

GEMMA = {
    **FIELDS,
    "vocab_size": size(256000),
    "hidden_size": size(3072),
    "intermediate_size": size(24576),
    "num_hidden_layers": count(28),
    "num_attention_heads": size(16),
    "num_key_value_heads": size(16),
    "head_dim": size(256),
    "hidden_act": text("gelu_pytorch_tanh"),
    "pad_token_id": token(0),
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
    "tie_word_embeddings": flag(True),
    "branch_end_norms": fixed(False),
}
GEMMA2 = {
    **GEMMA,
    "hidden_size": size(2304),
    "intermediate_size": size(9216),
    "num_hidden_layers": count(26),
    "num_attention_heads": size(8),
    "num_key_value_heads": size(4),
    "hidden_act": text("gelu_pytorch_tanh", "hidden_activation"),
    "branch_end_norms": fixed(True),
    "heads_fill_width": fixed(True),
}
GEMMA3 = {**GEMMA2, "vocab_size": size(262208), "qk_norm": fixed(True)}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """GemmaDecoderLayer, Gemma2DecoderLayer, Gemma3DecoderLayer."""
    d = c.hidden_size
    yield from projections(c, f"{at}self_attn.")
    if c.qk_norm:
        yield from offset_norm(f"{at}self_attn.q_norm", c.head_dim)
        yield from offset_norm(f"{at}self_attn.k_norm", c.head_dim)
    yield from gated_mlp(c, f"{at}mlp.")
    yield from offset_norm(f"{at}input_layernorm", d)
    yield from offset_norm(f"{at}post_attention_layernorm", d)
    if c.branch_end_norms:
        yield from offset_norm(f"{at}pre_feedforward_layernorm", d)
        yield from offset_norm(f"{at}post_feedforward_layernorm", d)


FAMILIES = [
    family("gemma", "Gemma", "gemma", GEMMA, block, norm=offset_norm),
    family("gemma", "Gemma2", "gemma2", GEMMA2, block, norm=offset_norm),
    family(
        "gemma", "Gemma3", "gemma3_text", GEMMA3, block, norm=offset_norm, bare="Gemma3TextModel"
    ),
]
