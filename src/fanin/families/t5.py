"""T5 (Raffel et al. 2020) 1.0 and 1.1, mT5 and UMT5: an encoder, a decoder, relative positions.

The first block of a stack has the table of position biases for all of them (in UMT5 each block has
its own). Norms have no bias, nor has anything else. Initialization as in transformers, which has it
from Mesh TensorFlow: a variance of one over the number of inputs, and queries smaller by the square
root of the head size, since the logits are not divided by it.

Version 1.1 has a gated MLP, a head of its own, and configs that say `tie_word_embeddings: false`.
The head is stored then, as in the published files: transformers 5 ties it when it builds such a
model, but keeps one that a file holds. Its rule for an untied head is N(0, 1), as for embeddings,
which makes the first loss about 100; here that head has a variance of one over its inputs, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from fanin.families.family import Family
from fanin.families.fields import (
    Config,
    Field,
    count,
    derived,
    fixed,
    flag,
    number,
    size,
    text,
)
from fanin.families.layers import embedding, linear, repeat, rms_norm
from fanin.initializers import Constant, Normal
from fanin.model import Tensor
from fanin.rules import IDENTITY, Rules

T5 = {
    "initializer_factor": number(1.0),
    "tie_word_embeddings": flag(True),
    "vocab_size": size(32128),
    "hidden_size": size(512, "d_model", "hidden_size"),
    "num_layers": count(6),
    "encoder_layers": count(6, "num_layers", "num_hidden_layers"),
    "decoder_layers": count(None, "num_decoder_layers", null=lambda c: c.num_layers),
    "num_hidden_layers": derived(lambda c: max(c.encoder_layers, c.decoder_layers)),
    "num_attention_heads": size(8, "num_heads", "num_attention_heads"),
    "head_dim": size(64, "d_kv", "head_dim"),
    "intermediate_size": size(2048, "d_ff"),
    "feed_forward_proj": text("relu"),
    "hidden_act": text(None, "dense_act_fn", null=lambda c: activation(c.feed_forward_proj)),
    "gated": flag(None, "is_gated_act", null=lambda c: c.feed_forward_proj.startswith("gated-")),
    "relative_attention_num_buckets": size(32),
    "is_decoder": flag(False),
    "every_block_has_positions": fixed(False),
}
MT5 = {
    **T5,
    "vocab_size": size(250112),
    "num_layers": count(8),
    "encoder_layers": count(8, "num_layers", "num_hidden_layers"),
    "num_attention_heads": size(6, "num_heads", "num_attention_heads"),
    "intermediate_size": size(1024, "d_ff"),
    "feed_forward_proj": text("gated-gelu"),
}
UMT5 = {**MT5, "every_block_has_positions": fixed(True)}


def conditional_generation(c: Config) -> Iterator[Tensor]:
    """T5ForConditionalGeneration."""
    yield from body(c)
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config) -> Iterator[Tensor]:
    """T5Model."""
    yield from embedding("shared", c.vocab_size, c.hidden_size)
    yield from stack(c, "encoder", c.encoder_layers, decodes=False)
    yield from stack(c, "decoder", c.decoder_layers, decodes=True)


def encoder_model(c: Config) -> Iterator[Tensor]:
    """T5EncoderModel, which a config can make a decoder."""
    yield from embedding("shared", c.vocab_size, c.hidden_size)
    yield from stack(c, "encoder", c.encoder_layers, decodes=c.is_decoder)


def stack(c: Config, name: str, layers: int, *, decodes: bool) -> Iterator[Tensor]:
    """T5Stack."""
    yield from embedding(f"{name}.embed_tokens", c.vocab_size, c.hidden_size)
    make = partial(block, c, decodes=decodes)
    yield from repeat(f"{name}.block", layers, make, branches=2 + decodes)
    yield from rms_norm(f"{name}.final_layer_norm", c.hidden_size)


def block(c: Config, at: str, *, decodes: bool) -> Iterator[Tensor]:
    """T5Block."""
    d, inner = c.hidden_size, c.intermediate_size
    positions = c.every_block_has_positions or at.endswith(".0.")
    yield from attention(c, f"{at}layer.0.SelfAttention", positions=positions)
    yield from rms_norm(f"{at}layer.0.layer_norm", d)
    if decodes:
        yield from attention(c, f"{at}layer.1.EncDecAttention", positions=False)
        yield from rms_norm(f"{at}layer.1.layer_norm", d)
    at = f"{at}layer.{1 + decodes}."
    if c.gated:
        yield from linear(f"{at}DenseReluDense.wi_0", inner, d, "mlp.gate", bias=False)
        yield from linear(f"{at}DenseReluDense.wi_1", inner, d, "mlp.in", bias=False)
    else:
        yield from linear(f"{at}DenseReluDense.wi", inner, d, "mlp.in", bias=False)
    yield from linear(f"{at}DenseReluDense.wo", d, inner, "mlp.out", bias=False)
    yield from rms_norm(f"{at}layer_norm", d)


def attention(c: Config, at: str, *, positions: bool) -> Iterator[Tensor]:
    """T5Attention, whose heads need not fill the width."""
    d, heads = c.hidden_size, c.num_attention_heads
    for name, projection in (("q", "query"), ("k", "key"), ("v", "value")):
        role = f"attention.{projection}"
        yield from linear(f"{at}.{name}", heads * c.head_dim, d, role, bias=False)
    yield from linear(f"{at}.o", d, heads * c.head_dim, "attention.out", bias=False)
    if positions:
        buckets, role = c.relative_attention_num_buckets, "embedding.relative_position"
        yield from embedding(f"{at}.relative_attention_bias", buckets, heads, role)


def auto(c: Config) -> Rules:
    """`T5PreTrainedModel._init_weights`, but for a head that is not tied."""

    def normal(fan_in: int) -> Normal:
        return Normal(std=c.initializer_factor / math.sqrt(fan_in))

    d = c.hidden_size
    return {
        **IDENTITY,
        "norm.scale": Constant(c.initializer_factor),
        "embedding": normal(1),
        "embedding.relative_position": normal(d),
        "attention": normal(d),
        "attention.query": normal(d * c.head_dim),
        "attention.out": normal(c.num_attention_heads * c.head_dim),
        "mlp": normal(d),
        "mlp.out": normal(c.intermediate_size),
        "head": normal(d),
    }


def tied(c: Config) -> dict[str, str]:
    """One table for both stacks, and for the head unless the config says otherwise."""
    aliases = ["encoder.embed_tokens", "decoder.embed_tokens"]
    if c.tie_word_embeddings:
        aliases.append("lm_head")
    return {f"{alias}.weight": "shared.weight" for alias in aliases}


def check(c: Config) -> None:
    """Refuse a feed_forward_proj that is neither an activation nor a gated one."""
    activation, _, rest = c.feed_forward_proj.partition("-")
    if rest and (activation != "gated" or "-" in rest):
        c.refuse("feed_forward_proj", 'must be an activation, or "gated-" and an activation')


def activation(feed_forward_proj: str) -> str:
    """Return transformers' name for the activation; `gated-gelu` means the tanh form of it."""
    name = feed_forward_proj.rpartition("-")[2]
    return "gelu_new" if feed_forward_proj == "gated-gelu" else name


def family(title: str, model_type: str, fields: dict[str, Field]) -> Family:
    """Return the family of `<title>ForConditionalGeneration`."""
    return Family(
        name="t5",
        model_type=model_type,
        fields=fields,
        architectures={
            f"{title}ForConditionalGeneration": conditional_generation,
            f"{title}Model": body,
            f"{title}EncoderModel": encoder_model,
        },
        tied=tied,
        auto=auto,
        check=check,
    )


FAMILIES = [family("T5", "t5", T5), family("MT5", "mt5", MT5), family("UMT5", "umt5", UMT5)]
