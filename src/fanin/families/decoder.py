"""What decoders built like Llama share: fields, projections, gated MLP, the stack and its head.

Llama's tensors and their names became the pattern of many models. A family of that kind is a file
with its fields and one function, the block; `family` makes the rest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, Field, count, derived, fixed, size, text, token
from fanin.families.layers import embedding, linear, repeat, rms_norm
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

__all__ = [
    "FIELDS",
    "HEADS_FILL_WIDTH",
    "check_heads",
    "family",
    "gated_mlp",
    "heads",
    "projections",
]

FIELDS: Mapping[str, Field] = {
    **COMMON,
    "vocab_size": size(32000),
    "hidden_size": size(4096),
    "intermediate_size": size(11008),
    "num_hidden_layers": count(32),
    "num_attention_heads": size(32),
    "num_key_value_heads": size(None, null=lambda c: c.num_attention_heads),
    "head_dim": size(None, null=lambda c: c.hidden_size // c.num_attention_heads),
    "hidden_act": text("silu"),
    "pad_token_id": token(None),
    "qkv_bias": fixed(False),
    "output_bias": fixed(False),
    "mlp_bias": fixed(False),
    "qk_norm": fixed(False),
    "heads_fill_width": fixed(False),
}
"""Those of Llama without its switches, which a family turns on by its own names."""

HEADS_FILL_WIDTH: Mapping[str, Field] = {
    "head_dim": derived(lambda c: c.hidden_size // c.num_attention_heads),
    "heads_fill_width": fixed(True),
}
"""Heads that share the width between them, whatever `head_dim` the file has."""

Block = Callable[[Config, str], Iterator[Tensor]]
Norm = Callable[[str, int], Iterator[Tensor]]


def family(
    name: str,
    title: str,
    model_type: str,
    fields: Mapping[str, Field],
    block: Block,
    *,
    norm: Norm = rms_norm,
    bare: str | None = None,
    auto: Callable[[Config], Rules] | None = None,
    check: Callable[[Config], None] | None = None,
    module_names: Mapping[str, str] | Callable[[str], str] | None = None,
) -> Family:
    """Return the family of `<title>ForCausalLM`, and of `bare` (`<title>Model`) without the head.

    `block` yields a layer's tensors from the fields and the start of their names; `norm` is the
    one after the last layer. The rest are those of `Family`, with the defaults of this file.
    """

    def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
        table = f"{prefix}embed_tokens"
        yield from embedding(table, c.vocab_size, c.hidden_size, padding=c.pad_token_id)
        yield from repeat(f"{prefix}layers", c.num_hidden_layers, partial(block, c))
        yield from norm(f"{prefix}norm", c.hidden_size)

    def causal_lm(c: Config) -> Iterator[Tensor]:
        yield from body(c, "model.")
        yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)

    return Family(
        name=name,
        model_type=model_type,
        fields=fields,
        architectures={f"{title}ForCausalLM": causal_lm, bare or f"{title}Model": body},
        tied={"lm_head.weight": "model.embed_tokens.weight"},
        auto=auto or usual_auto,
        check=check or check_heads,
        module_names=module_names or {},
    )


def heads(c: Config) -> tuple[int, int]:
    """Return the width of all queries, and of all keys, which is that of the values."""
    return c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim


def projections(c: Config, at: str) -> Iterator[Tensor]:
    """Yield query, key, value and output of grouped attention."""
    d, (queries, keys) = c.hidden_size, heads(c)
    yield from linear(f"{at}q_proj", queries, d, "attention.query", bias=c.qkv_bias)
    yield from linear(f"{at}k_proj", keys, d, "attention.key", bias=c.qkv_bias)
    yield from linear(f"{at}v_proj", keys, d, "attention.value", bias=c.qkv_bias)
    yield from linear(f"{at}o_proj", d, queries, "attention.out", bias=c.output_bias)


def gated_mlp(c: Config, at: str, inner: int | None = None) -> Iterator[Tensor]:
    """Yield gate, up and down of a gated MLP, by default of the width `intermediate_size`."""
    d, inner = c.hidden_size, c.intermediate_size if inner is None else inner
    yield from linear(f"{at}gate_proj", inner, d, "mlp.gate", bias=c.mlp_bias)
    yield from linear(f"{at}up_proj", inner, d, "mlp.in", bias=c.mlp_bias)
    yield from linear(f"{at}down_proj", d, inner, "mlp.out", bias=c.mlp_bias)


def usual_auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check_heads(c: Config) -> None:
    """Refuse heads of no width, or that do not divide the groups, or the width where they must."""
    if c.heads_fill_width or c.head_dim == 0:
        c.require_multiple("hidden_size", of="num_attention_heads")
    c.require_multiple("num_attention_heads", of="num_key_value_heads")
    c.require_row("pad_token_id", "vocab_size")
