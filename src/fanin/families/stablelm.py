"""StableLM (Bellagente et al. 2024): Llama with layer norms.

Attention and MLP may read the same norm, side by side; queries and keys may have a norm for each
head. Initialization as in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families.decoder import FIELDS, HEADS_FILL_WIDTH, family, gated_mlp, projections
from fanin.families.fields import Config, flag, size
from fanin.families.layers import norm, rms_norm
from fanin.model import Tensor

STABLELM = {
    **FIELDS,
    **HEADS_FILL_WIDTH,
    "vocab_size": size(50304),
    "hidden_size": size(2560),
    "intermediate_size": size(6912),
    "num_key_value_heads": size(32),
    "qkv_bias": flag(False, "use_qkv_bias"),
    "qk_norm": flag(False, "qk_layernorm"),
    "use_parallel_residual": flag(False),
}


def block(c: Config, at: str) -> Iterator[Tensor]:
    """StableLmDecoderLayer."""
    yield from projections(c, f"{at}self_attn.")
    if c.qk_norm:
        yield from head_norms(f"{at}self_attn.q_layernorm", c.num_attention_heads, c.head_dim)
        yield from head_norms(f"{at}self_attn.k_layernorm", c.num_key_value_heads, c.head_dim)
    yield from gated_mlp(c, f"{at}mlp.")
    yield from norm(f"{at}input_layernorm", c.hidden_size)
    if not c.use_parallel_residual:
        yield from norm(f"{at}post_attention_layernorm", c.hidden_size)


def head_norms(name: str, heads: int, size: int) -> Iterator[Tensor]:
    """StableLmLayerNormPerHead, which has no biases."""
    for head in range(heads):
        yield from rms_norm(f"{name}.norms.{head}", size)


FAMILIES = [family("stablelm", "StableLm", "stablelm", STABLELM, block, norm=norm)]
