"""GPT-NeoX (Black et al. 2022), such as Pythia: layer norms, rotary positions, dense MLP.

Query, key and value are one tensor, a head at a time: the rows of the first head's query, key and
value, then the second's. They are three matrices here. Initialization as in transformers:
N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, flag, size, text
from fanin.families.layers import embedding, fused_linear, linear, norm, repeat
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "vocab_size": size(50432),
    "hidden_size": size(6144),
    "num_hidden_layers": count(44),
    "num_attention_heads": size(64),
    "intermediate_size": size(24576),
    "hidden_act": text("gelu"),
    "attention_bias": flag(True),
}


def causal_lm(c: Config) -> Iterator[Tensor]:
    """GPTNeoXForCausalLM."""
    yield from body(c, "gpt_neox.")
    yield from linear("embed_out", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """GPTNeoXModel."""
    yield from embedding(f"{prefix}embed_in", c.vocab_size, c.hidden_size)
    yield from repeat(f"{prefix}layers", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}final_layer_norm", c.hidden_size)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """GPTNeoXLayer."""
    d, inner, biased = c.hidden_size, c.intermediate_size, c.attention_bias
    yield from norm(f"{at}input_layernorm", d)
    yield from norm(f"{at}post_attention_layernorm", d)
    yield from fused_linear(
        f"{at}attention.query_key_value",
        {"query": d, "key": d, "value": d},
        d,
        "attention",
        bias=biased,
        heads=c.num_attention_heads,
    )
    yield from linear(f"{at}attention.dense", d, d, "attention.out", bias=biased)
    yield from linear(f"{at}mlp.dense_h_to_4h", inner, d, "mlp.in")
    yield from linear(f"{at}mlp.dense_4h_to_h", d, inner, "mlp.out")


def auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")


FAMILIES = [
    Family(
        name="gpt_neox",
        model_type="gpt_neox",
        fields=FIELDS,
        architectures={"GPTNeoXForCausalLM": causal_lm, "GPTNeoXModel": body},
        tied={"embed_out.weight": "gpt_neox.embed_in.weight"},
        auto=auto,
        check=check,
        module_names={"embed_out.weight": "lm_head.weight"},
    )
]
