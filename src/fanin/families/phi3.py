"""Phi-3 (Abdin et al. 2024): Llama with fused matrices.

Query, key and value are one tensor, gate and up another, each one matrix after the other; they are
three and two matrices here. Initialization as in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, heads
from fanin.families.fields import Config, size, token
from fanin.families.layers import fused_linear, linear, rms_norm
from fanin.model import Tensor

PHI3 = {
    **FIELDS,
    "vocab_size": size(32064),
    "hidden_size": size(3072),
    "intermediate_size": size(8192),
    "pad_token_id": token(32000),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """Phi3DecoderLayer."""
    d, inner, (queries, keys) = c.hidden_size, c.intermediate_size, heads(c)
    query_key_value = {"query": queries, "key": keys, "value": keys}
    qkv, gate_up = f"{at}self_attn.qkv_proj", f"{at}mlp.gate_up_proj"
    yield from linear(f"{at}self_attn.o_proj", d, queries, "attention.out", bias=False)
    yield from fused_linear(qkv, query_key_value, d, "attention", bias=False)
    yield from fused_linear(gate_up, {"gate": inner, "up": inner}, d, "mlp", bias=False)
    yield from linear(f"{at}mlp.down_proj", d, inner, "mlp.out", bias=False)
    yield from rms_norm(f"{at}input_layernorm", d)
    yield from rms_norm(f"{at}post_attention_layernorm", d)


FAMILIES = [family("phi3", "Phi3", "phi3", PHI3, block)]
