"""OLMoE (Muennighoff et al. 2025): Llama with experts in every layer.

Queries and keys have a norm over all heads together. Initialization as in transformers:
N(0, initializer_range^2), routers included.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, projections
from fanin.families.experts import auto, experts, router
from fanin.families.fields import Config, count, flag, size, token
from fanin.families.layers import rms_norm
from fanin.model import Tensor

OLMOE = {
    **FIELDS,
    "vocab_size": size(50304),
    "hidden_size": size(2048),
    "intermediate_size": size(2048),
    "num_hidden_layers": count(16),
    "num_attention_heads": size(16),
    "pad_token_id": token(1),
    "qkv_bias": flag(False, "attention_bias"),
    "output_bias": flag(False, "attention_bias"),
    "experts": size(64, "num_experts", "num_local_experts"),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """OlmoeDecoderLayer."""
    d = c.hidden_size
    yield from projections(c, f"{at}self_attn.")
    yield from rms_norm(f"{at}self_attn.q_norm", d)
    yield from rms_norm(f"{at}self_attn.k_norm", d // c.num_attention_heads * c.num_key_value_heads)
    yield from router(f"{at}mlp.gate", c.experts, d)
    yield from experts(f"{at}mlp.experts.", c.experts, c.intermediate_size, d)
    yield from rms_norm(f"{at}input_layernorm", d)
    yield from rms_norm(f"{at}post_attention_layernorm", d)


FAMILIES = [family("olmoe", "Olmoe", "olmoe", OLMOE, block, auto=auto)]
