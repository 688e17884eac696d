"""GPT-2 (Radford et al. 2019): learned positions, pre-norm, dense layers stored (in, out).

Query, key and value are one tensor, side by side along its columns; they are three matrices here.
Initialization as in transformers: N(0, initializer_range^2), the two matrices that write to the
residual stream divided by sqrt(2 n_layer), once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, flag, size, text
from fanin.families.layers import embedding, fused_linear, linear, norm, repeat
from fanin.initializers import Normal
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "vocab_size": size(50257),
    "max_position_embeddings": size(1024, "n_positions", "max_position_embeddings"),
    "hidden_size": size(768, "n_embd", "hidden_size"),
    "num_hidden_layers": count(12, "n_layer", "num_hidden_layers"),
    "num_attention_heads": size(12, "n_head", "num_attention_heads"),
    "n_inner": size(None, null=lambda config: 4 * config.hidden_size),
    "hidden_act": text("gelu_new", "activation_function"),
    "add_cross_attention": flag(False),
    "tie_word_embeddings": flag(True),
}

conv1d = partial(linear, layout="io")
fused_conv1d = partial(fused_linear, layout="io")


def lm_head_model(c: Config) -> Iterator[Tensor]:
    """GPT2LMHeadModel."""
    yield from body(c, "transformer.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """GPT2Model."""
    yield from embedding(f"{prefix}wte", c.vocab_size, c.hidden_size)
    yield from embedding(
        f"{prefix}wpe", c.max_position_embeddings, c.hidden_size, "embedding.position"
    )
    branches = 2 + c.add_cross_attention
    yield from repeat(f"{prefix}h", c.num_hidden_layers, partial(block, c), branches=branches)
    yield from norm(f"{prefix}ln_f", c.hidden_size)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """GPT2Block."""
    d, cross = c.hidden_size, f"{at}crossattention."
    query_key_value = {"query": d, "key": d, "value": d}
    yield from norm(f"{at}ln_1", d)
    yield from fused_conv1d(f"{at}attn.c_attn", query_key_value, d, "attention")
    yield from conv1d(f"{at}attn.c_proj", d, d, "attention.out")
    yield from norm(f"{at}ln_2", d)
    if c.add_cross_attention:
        yield from fused_conv1d(f"{cross}c_attn", {"key": d, "value": d}, d, "attention")
        yield from conv1d(f"{cross}q_attn", d, d, "attention.query")
        yield from conv1d(f"{cross}c_proj", d, d, "attention.out")
        yield from norm(f"{at}ln_cross_attn", d)
    yield from conv1d(f"{at}mlp.c_fc", c.n_inner, d, "mlp.in")
    yield from conv1d(f"{at}mlp.c_proj", d, c.n_inner, "mlp.out")


def auto(c: Config) -> Rules:
    """`GPT2PreTrainedModel._init_weights`: an initializer_range of 0 means 0.02 to some layers."""
    std = c.initializer_range
    rules = normal_weights(std, residual=std / math.sqrt(2 * c.num_hidden_layers))
    return {**rules, "embedding": Normal(std=std or 0.02), "head": Normal(std=std or 0.02)}


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")


FAMILIES = [
    Family(
        name="gpt2",
        model_type="gpt2",
        fields=FIELDS,
        architectures={"GPT2LMHeadModel": lm_head_model, "GPT2Model": body},
        tied={"lm_head.weight": "transformer.wte.weight"},
        auto=auto,
        check=check,
    )
]
