"""StarCoder2 (Lozhkov et al. 2024): Llama with layer norms, biases and an MLP without a gate.

Initialization as in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, family, projections
from fanin.families.fields import Config, count, flag, number, size, text
from fanin.families.layers import linear, norm
from fanin.model import Tensor

STARCODER2 = {
    **FIELDS,
    "initializer_range": number(0.018042),
    "tie_word_embeddings": flag(True),
    "vocab_size": size(49152),
    "hidden_size": size(3072),
    "intermediate_size": size(12288),
    "num_hidden_layers": count(30),
    "num_attention_heads": size(24),
    "num_key_value_heads": size(2),
    "hidden_act": text("gelu_pytorch_tanh"),
    "qkv_bias": flag(True, "use_bias"),
    "output_bias": flag(True, "use_bias"),
    "mlp_bias": flag(True, "use_bias"),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """Starcoder2DecoderLayer."""
    d, inner = c.hidden_size, c.intermediate_size
    yield from projections(c, f"{at}self_attn.")
    yield from linear(f"{at}mlp.c_fc", inner, d, "mlp.in", bias=c.mlp_bias)
    yield from linear(f"{at}mlp.c_proj", d, inner, "mlp.out", bias=c.mlp_bias)
    yield from norm(f"{at}input_layernorm", d)
    yield from norm(f"{at}post_attention_layernorm", d)


FAMILIES = [family("starcoder2", "Starcoder2", "starcoder2", STARCODER2, block, norm=norm)]
