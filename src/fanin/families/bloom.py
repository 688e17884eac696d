"""BLOOM (BigScience Workshop 2022): ALiBi, a layer norm of the embeddings, a tied head.

Query, key and value are one tensor, a head at a time; they are three matrices here.
Initialization as in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, fixed, flag, size
from fanin.families.layers import embedding, fused_linear, linear, norm, repeat
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "tie_word_embeddings": flag(True),
    "vocab_size": size(250880),
    "hidden_size": size(64, "hidden_size", "n_embed"),
    "num_hidden_layers": count(2, "n_layer", "num_hidden_layers"),
    "num_attention_heads": size(8, "n_head", "num_attention_heads"),
    "hidden_act": fixed("gelu_pytorch_tanh"),
}


def causal_lm(c: Config) -> Iterator[Tensor]:
    """BloomForCausalLM."""
    yield from body(c, "transformer.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """BloomModel."""
    yield from embedding(f"{prefix}word_embeddings", c.vocab_size, c.hidden_size)
    yield from norm(f"{prefix}word_embeddings_layernorm", c.hidden_size)
    yield from repeat(f"{prefix}h", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}ln_f", c.hidden_size)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """BloomBlock."""
    d, fused = c.hidden_size, f"{at}self_attention.query_key_value"
    query_key_value = {"query": d, "key": d, "value": d}
    yield from norm(f"{at}input_layernorm", d)
    yield from fused_linear(fused, query_key_value, d, "attention", heads=c.num_attention_heads)
    yield from linear(f"{at}self_attention.dense", d, d, "attention.out")
    yield from norm(f"{at}post_attention_layernorm", d)
    yield from linear(f"{at}mlp.dense_h_to_4h", 4 * d, d, "mlp.in")
    yield from linear(f"{at}mlp.dense_4h_to_h", d, 4 * d, "mlp.out")


def auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")


FAMILIES = [
    Family(
        name="bloom",
        model_type="bloom",
        fields=FIELDS,
        architectures={"BloomForCausalLM": causal_lm, "BloomModel": body},
        tied={"lm_head.weight": "transformer.word_embeddings.weight"},
        auto=auto,
        check=check,
    )
]
