"""GPT-J (Wang and Komatsuzaki 2021): one norm before attention and MLP, which run side by side.

Rotary positions, no biases in attention, a bias in the output head. Initialization as in
transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, size, text
from fanin.families.layers import embedding, linear, norm, repeat
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "vocab_size": size(50400),
    "hidden_size": size(4096, "n_embd", "hidden_size"),
    "num_hidden_layers": count(28, "n_layer", "num_hidden_layers"),
    "num_attention_heads": size(16, "n_head", "num_attention_heads"),
    "n_inner": size(None, null=lambda config: 4 * config.hidden_size),
    "hidden_act": text("gelu_new", "activation_function"),
}


def causal_lm(c: Config) -> Iterator[Tensor]:
    """GPTJForCausalLM."""
    yield from body(c, "transformer.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head")


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """GPTJModel."""
    yield from embedding(f"{prefix}wte", c.vocab_size, c.hidden_size)
    yield from repeat(f"{prefix}h", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}ln_f", c.hidden_size)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """GPTJBlock."""
    d = c.hidden_size
    yield from norm(f"{at}ln_1", d)
    yield from linear(f"{at}attn.k_proj", d, d, "attention.key", bias=False)
    yield from linear(f"{at}attn.v_proj", d, d, "attention.value", bias=False)
    yield from linear(f"{at}attn.q_proj", d, d, "attention.query", bias=False)
    yield from linear(f"{at}attn.out_proj", d, d, "attention.out", bias=False)
    yield from linear(f"{at}mlp.fc_in", c.n_inner, d, "mlp.in")
    yield from linear(f"{at}mlp.fc_out", d, c.n_inner, "mlp.out")


def auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")


FAMILIES = [
    Family(
        name="gptj",
        model_type="gptj",
        fields=FIELDS,
        architectures={"GPTJForCausalLM": causal_lm, "GPTJModel": body},
        tied={"lm_head.weight": "transformer.wte.weight"},
        auto=auto,
        check=check,
    )
]
