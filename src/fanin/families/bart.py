"""BART (Lewis et al. 2020) and mBART (Liu et al. 2020): an encoder and a decoder, one embedding.

Two rows of the positions lie before the first position; the row of the padding token is zero. mBART
has one more norm after each stack. The bias of the logits is a buffer, which is stored.
Initialization as in transformers: N(0, init_std^2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    token,
)
from fanin.families.layers import embedding, linear, norm, part, repeat
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

BART = {
    "initializer_range": number(0.02, "init_std", "initializer_range"),
    "tie_word_embeddings": flag(True),
    "vocab_size": size(50265),
    "hidden_size": size(1024, "d_model", "hidden_size"),
    "encoder_layers": count(12, "encoder_layers", "num_hidden_layers"),
    "decoder_layers": count(12),
    "num_hidden_layers": derived(lambda c: max(c.encoder_layers, c.decoder_layers)),
    "encoder_attention_heads": size(16, "encoder_attention_heads", "num_attention_heads"),
    "decoder_attention_heads": size(16),
    "encoder_ffn_dim": size(4096),
    "decoder_ffn_dim": size(4096),
    "hidden_act": text("gelu", "activation_function"),
    "max_position_embeddings": size(1024),
    "pad_token_id": token(1),
    "key_bias": fixed(True),
    "final_norm": fixed(False),
}
MBART = {**BART, "final_norm": fixed(True)}

OFFSET = 2
"""Rows of the positions before the first one."""


def conditional_generation(c: Config) -> Iterator[Tensor]:
    """BartForConditionalGeneration."""
    shape = (1, c.vocab_size)
    bias = Tensor.of("final_logits_bias", shape, (part("final_logits_bias", "bias", shape, None),))
    yield replace(bias, buffer=True)
    yield from body(c, "model.")
    yield from linear("lm_head", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """BartModel."""
    yield from embedding(f"{prefix}shared", c.vocab_size, c.hidden_size, padding=c.pad_token_id)
    yield from stack(c, f"{prefix}encoder.", decodes=False)
    yield from stack(c, f"{prefix}decoder.", decodes=True)


def stack(c: Config, at: str, *, decodes: bool) -> Iterator[Tensor]:
    """BartEncoder, BartDecoder."""
    d, positions = c.hidden_size, OFFSET + c.max_position_embeddings
    yield from embedding(f"{at}embed_tokens", c.vocab_size, d, padding=c.pad_token_id)
    yield from embedding(f"{at}embed_positions", positions, d, "embedding.position")
    yield from blocks(c, at, decodes=decodes)
    yield from norm(f"{at}layernorm_embedding", d)
    if c.final_norm:
        yield from norm(f"{at}layer_norm", d)


def blocks(c: Config, at: str, *, decodes: bool) -> Iterator[Tensor]:
    """Yield all layers of a stack."""
    layers = c.decoder_layers if decodes else c.encoder_layers
    make = partial(block, c, decodes=decodes)
    yield from repeat(f"{at}layers", layers, make, branches=2 + decodes)


def block(c: Config, at: str, *, decodes: bool) -> Iterator[Tensor]:
    """BartEncoderLayer, BartDecoderLayer."""
    d, inner = c.hidden_size, c.decoder_ffn_dim if decodes else c.encoder_ffn_dim
    for attention in ("self_attn", "encoder_attn")[: 1 + decodes]:
        yield from linear(f"{at}{attention}.k_proj", d, d, "attention.key", bias=c.key_bias)
        yield from linear(f"{at}{attention}.v_proj", d, d, "attention.value")
        yield from linear(f"{at}{attention}.q_proj", d, d, "attention.query")
        yield from linear(f"{at}{attention}.out_proj", d, d, "attention.out")
        yield from norm(f"{at}{attention}_layer_norm", d)
    yield from linear(f"{at}fc1", inner, d, "mlp.in")
    yield from linear(f"{at}fc2", d, inner, "mlp.out")
    yield from norm(f"{at}final_layer_norm", d)


def auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`: an init_std of 0 is 0, an initializer_range of 0 is 0.02."""
    default = 0.02 if c.label("initializer_range") == "initializer_range" else 0.0
    return normal_weights(c.initializer_range or default)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="encoder_attention_heads")
    c.require_multiple("hidden_size", of="decoder_attention_heads")
    c.require_row("pad_token_id", "vocab_size")


def family(title: str, model_type: str, fields: Mapping[str, Field]) -> Family:
    """Return the family of `<title>ForConditionalGeneration`."""
    return Family(
        name="bart",
        model_type=model_type,
        fields=fields,
        architectures={
            f"{title}ForConditionalGeneration": conditional_generation,
            f"{title}Model": body,
        },
        tied={
            "model.encoder.embed_tokens.weight": "model.shared.weight",
            "model.decoder.embed_tokens.weight": "model.shared.weight",
            "lm_head.weight": "model.shared.weight",
            "encoder.embed_tokens.weight": "shared.weight",
            "decoder.embed_tokens.weight": "shared.weight",
        },
        auto=auto,
        check=check,
    )


FAMILIES = [family("Bart", "bart", BART), family("MBart", "mbart", MBART)]
