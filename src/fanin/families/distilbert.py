"""DistilBERT (Sanh et al. 2019): BERT without token types and pooler, half as deep.

The row of the padding token is zero. Positions may be sines and cosines, which are computed.
Initialization as in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, flag, size, text, token
from fanin.families.layers import embedding, linear, norm, repeat
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights

FIELDS = {
    **COMMON,
    "vocab_size": size(30522),
    "hidden_size": size(768, "dim", "hidden_size"),
    "num_hidden_layers": count(6, "n_layers", "num_hidden_layers"),
    "num_attention_heads": size(12, "n_heads", "num_attention_heads"),
    "hidden_dim": size(3072),
    "hidden_act": text("gelu", "activation"),
    "max_position_embeddings": size(512),
    "sinusoidal_pos_embds": flag(False),
    "pad_token_id": token(0),
    "tie_word_embeddings": flag(True),
}


def masked_lm(c: Config) -> Iterator[Tensor]:
    """DistilBertForMaskedLM."""
    d = c.hidden_size
    yield from body(c, "distilbert.")
    yield from linear("vocab_transform", d, d, "head.transform")
    yield from norm("vocab_layer_norm", d)
    yield from linear("vocab_projector", c.vocab_size, d, "head")


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """DistilBertModel."""
    d, at = c.hidden_size, f"{prefix}embeddings."
    yield from embedding(f"{at}word_embeddings", c.vocab_size, d, padding=c.pad_token_id)
    kind = "sinusoids.interleaved" if c.sinusoidal_pos_embds else "embedding.position"
    yield from embedding(f"{at}position_embeddings", c.max_position_embeddings, d, kind)
    yield from norm(f"{at}LayerNorm", d)
    yield from repeat(f"{prefix}transformer.layer", c.num_hidden_layers, partial(block, c))


def block(c: Config, at: str) -> Iterator[Tensor]:
    """TransformerBlock."""
    d = c.hidden_size
    for name, projection in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "out")):
        yield from linear(f"{at}attention.{name}_lin", d, d, f"attention.{projection}")
    yield from norm(f"{at}sa_layer_norm", d)
    yield from linear(f"{at}ffn.lin1", c.hidden_dim, d, "mlp.in")
    yield from linear(f"{at}ffn.lin2", d, c.hidden_dim, "mlp.out")
    yield from norm(f"{at}output_layer_norm", d)


def auto(c: Config) -> Rules:
    """`PreTrainedModel._init_weights`, which takes an initializer_range of 0 for 0.02."""
    return normal_weights(c.initializer_range or 0.02)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width."""
    c.require_multiple("hidden_size", of="num_attention_heads")
    c.require_row("pad_token_id", "vocab_size")


FAMILIES = [
    Family(
        name="distilbert",
        model_type="distilbert",
        fields=FIELDS,
        architectures={"DistilBertForMaskedLM": masked_lm, "DistilBertModel": body},
        tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
        auto=auto,
        check=check,
    )
]
