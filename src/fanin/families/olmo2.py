"""OLMo 2 (OLMo Team 2025): Llama with a norm after each branch in place of the one before it.

Queries and keys have a norm over all heads together. Initialization as in transformers:
N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, gated_mlp, heads, projections
from fanin.families.fields import Config, flag, size, token
from fanin.families.layers import rms_norm
from fanin.model import Tensor

OLMO2 = {
    **FIELDS,
    "vocab_size": size(50304),
    "pad_token_id": token(1),
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """Olmo2DecoderLayer."""
    queries, keys = heads(c)
    yield from projections(c, f"{at}self_attn.")
    yield from rms_norm(f"{at}self_attn.q_norm", queries)
    yield from rms_norm(f"{at}self_attn.k_norm", keys)
    yield from gated_mlp(c, f"{at}mlp.")
    yield from rms_norm(f"{at}post_attention_layernorm", c.hidden_size)
    yield from rms_norm(f"{at}post_feedforward_layernorm", c.hidden_size)


FAMILIES = [family("olmo2", "Olmo2", "olmo2", OLMO2, block)]
