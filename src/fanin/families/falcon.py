"""Falcon (Almazrouei et al. 2023): few key and value heads, attention and MLP side by side.

Query, key and value are one tensor: the query heads of a group, their key head, their value head,
then the next group. Falcon-7B has one group (multi-query), Falcon-40B (`new_decoder_architecture`)
`num_kv_heads`, the first models one for each head. They are three matrices here. Initialization as
in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, derived, flag, size, text
from fanin.families.layers import embedding, fused_linear, linear, norm, repeat
from fanin.initializers import Normal
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "tie_word_embeddings": flag(True),
    "vocab_size": size(65024),
    "hidden_size": size(4544, "hidden_size", "n_embed"),
    "num_hidden_layers": count(32),
    "num_attention_heads": size(71),
    "num_kv_heads": size(None, null=lambda c: c.num_attention_heads),
    "ffn_hidden_size": size(None, null=lambda c: 4 * c.hidden_size),
    "hidden_act": text("gelu", "activation"),
    "new_decoder_architecture": flag(False),
    "multi_query": flag(True),
    "parallel_attn": flag(True),
    "bias": flag(False),
    "num_ln_in_parallel_attn": size(None, null=lambda c: 2 if c.new_decoder_architecture else 1),
    "groups": derived(lambda c: groups(c)),
}


def groups(c: Config) -> int:
    """Return the number of key and value heads."""
    if c.new_decoder_architecture:
        return int(c.num_kv_heads)
    return 1 if c.multi_query else int(c.num_attention_heads)


def causal_lm(c: Config) -> Iterator[Tensor]:
    """FalconForCausalLM."""
    yield from body(c, "transformer.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """FalconModel."""
    yield from embedding(f"{prefix}word_embeddings", c.vocab_size, c.hidden_size)
    yield from repeat(f"{prefix}h", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}ln_f", c.hidden_size)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """FalconDecoderLayer."""
    d, inner, bias = c.hidden_size, c.ffn_hidden_size, c.bias
    keys = c.groups * (d // c.num_attention_heads)
    yield from fused_linear(
        f"{at}self_attention.query_key_value",
        {"query": d, "key": keys, "value": keys},
        d,
        "attention",
        bias=bias,
        heads=c.groups,
    )
    yield from linear(f"{at}self_attention.dense", d, d, "attention.out", bias=bias)
    yield from linear(f"{at}mlp.dense_h_to_4h", inner, d, "mlp.in", bias=bias)
    yield from linear(f"{at}mlp.dense_4h_to_h", d, inner, "mlp.out", bias=bias)
    if not c.parallel_attn:
        yield from norm(f"{at}post_attention_layernorm", d)
        yield from norm(f"{at}input_layernorm", d)
    elif c.num_ln_in_parallel_attn == 2:
        yield from norm(f"{at}ln_attn", d)
        yield from norm(f"{at}ln_mlp", d)
    else:
        yield from norm(f"{at}input_layernorm", d)


def auto(c: Config) -> Rules:
    """`FalconPreTrainedModel._init_weights`: a range of 0 means 0.02 to the embedding and head."""
    std = c.initializer_range
    ends = dict.fromkeys(("embedding", "head"), Normal(std=std or 0.02))
    return {**normal_weights(std), **ends}


def check(c: Config) -> None:
    """Refuse heads that do not divide the width or the groups."""
    c.require_multiple("hidden_size", of="num_attention_heads")
    if c.new_decoder_architecture:
        c.require_multiple("num_attention_heads", of="num_kv_heads")


FAMILIES = [
    Family(
        name="falcon",
        model_type="falcon",
        fields=FIELDS,
        architectures={"FalconForCausalLM": causal_lm, "FalconModel": body},
        tied={"lm_head.weight": "transformer.word_embeddings.weight"},
        auto=auto,
        check=check,
    )
]
