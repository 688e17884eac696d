"""BERT (Devlin et al. 2019): learned positions and token types, post-norm, a tied masked-LM head.

The row of the padding token is zero. Initialization as in transformers: N(0, initializer_range^2),
where the original TensorFlow code cuts the same normal at two standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, flag, size, text, token
from fanin.families.layers import embedding, linear, norm, repeat, vector
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "vocab_size": size(30522),
    "hidden_size": size(768),
    "num_hidden_layers": count(12),
    "num_attention_heads": size(12),
    "intermediate_size": size(3072),
    "hidden_act": text("gelu"),
    "max_position_embeddings": size(512),
    "type_vocab_size": size(2),
    "pad_token_id": token(0),
    "is_decoder": flag(False),
    "add_cross_attention": flag(False),
    "tie_word_embeddings": flag(True),
}


def masked_lm(c: Config) -> Iterator[Tensor]:
    """BertForMaskedLM, and BertLMHeadModel."""
    yield from body(c, "bert.", pooler=False)
    yield from predictions(c)


def pretraining(c: Config) -> Iterator[Tensor]:
    """BertForPreTraining: both heads."""
    yield from body(c, "bert.")
    yield from predictions(c)
    yield from linear("cls.seq_relationship", 2, c.hidden_size, "head")


def body(c: Config, prefix: str = "", *, pooler: bool = True) -> Iterator[Tensor]:
    """BertModel."""
    yield from embeddings(c, f"{prefix}embeddings.", c.hidden_size)
    yield from encoder(c, prefix, pooler=pooler)


def embeddings(c: Config, at: str, width: int) -> Iterator[Tensor]:
    """BertEmbeddings."""
    positions, types = c.max_position_embeddings, c.type_vocab_size
    yield from embedding(f"{at}word_embeddings", c.vocab_size, width, padding=c.pad_token_id)
    yield from embedding(f"{at}position_embeddings", positions, width, "embedding.position")
    yield from embedding(f"{at}token_type_embeddings", types, width, "embedding.token_type")
    yield from norm(f"{at}LayerNorm", width)


def encoder(c: Config, prefix: str, *, pooler: bool) -> Iterator[Tensor]:
    """BertEncoder, and BertPooler."""
    layers, branches = c.num_hidden_layers, 2 + c.add_cross_attention
    yield from repeat(f"{prefix}encoder.layer", layers, partial(block, c), branches=branches)
    if pooler:
        yield from linear(f"{prefix}pooler.dense", c.hidden_size, c.hidden_size, "head.pooler")


def block(c: Config, at: str) -> Iterator[Tensor]:
    """BertLayer."""
    d = c.hidden_size
    for attention in ("attention", "crossattention")[: 1 + c.add_cross_attention]:
        for projection in ("query", "key", "value"):
            role = f"attention.{projection}"
            yield from linear(f"{at}{attention}.self.{projection}", d, d, role)
        yield from linear(f"{at}{attention}.output.dense", d, d, "attention.out")
        yield from norm(f"{at}{attention}.output.LayerNorm", d)
    yield from linear(f"{at}intermediate.dense", c.intermediate_size, d, "mlp.in")
    yield from linear(f"{at}output.dense", d, c.intermediate_size, "mlp.out")
    yield from norm(f"{at}output.LayerNorm", d)


def predictions(c: Config) -> Iterator[Tensor]:
    """BertLMPredictionHead: its own bias comes first, the decoder's is tied to it."""
    d, at = c.hidden_size, "cls.predictions."
    yield vector(f"{at}bias", c.vocab_size, "bias.head")
    yield from linear(f"{at}transform.dense", d, d, "head.transform")
    yield from norm(f"{at}transform.LayerNorm", d)
    yield from linear(f"{at}decoder", c.vocab_size, d, "head")


def auto(c: Config) -> Rules:
    """`BertPreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width, and cross-attention outside a decoder."""
    c.require_multiple("hidden_size", of="num_attention_heads")
    c.require_row("pad_token_id", "vocab_size")
    if c.add_cross_attention and not c.is_decoder:
        c.refuse("add_cross_attention", "needs is_decoder to be true")


FAMILIES = [
    Family(
        name="bert",
        model_type="bert",
        fields=FIELDS,
        architectures={
            "BertForMaskedLM": masked_lm,
            "BertLMHeadModel": masked_lm,
            "BertForPreTraining": pretraining,
            "BertModel": body,
        },
        tied={
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        auto=auto,
        check=check,
    )
]
