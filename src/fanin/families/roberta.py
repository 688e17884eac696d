"""RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with another head, and vocabularies.

Positions are counted on from the padding token's number, whose row is zero in their table as well:
512 of them take 514 rows. Initialization as in transformers: N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families import bert
from fanin.families.family import Family
from fanin.families.fields import Config, Field, size, token
from fanin.families.layers import embedding, linear, norm, vector
from fanin.model import Tensor

ROBERTA = {**bert.FIELDS, "vocab_size": size(50265), "pad_token_id": token(1)}
XLM_ROBERTA = {**ROBERTA, "vocab_size": size(30522)}


def body_and_head(c: Config) -> Iterator[Tensor]:
    """RobertaForMaskedLM, and RobertaForCausalLM."""
    yield from body(c, "roberta.", pooler=False)
    yield from head(c)


def head_and_body(c: Config) -> Iterator[Tensor]:
    """XLMRobertaForMaskedLM and the like, where the head comes first."""
    yield from head(c)
    yield from body(c, "roberta.", pooler=False)


def body(c: Config, prefix: str = "", *, pooler: bool = True) -> Iterator[Tensor]:
    """RobertaModel."""
    d, pad, at = c.hidden_size, c.pad_token_id, f"{prefix}embeddings."
    yield from embedding(f"{at}word_embeddings", c.vocab_size, d, padding=pad)
    yield from embedding(f"{at}token_type_embeddings", c.type_vocab_size, d, "embedding.token_type")
    yield from norm(f"{at}LayerNorm", d)
    positions, role = c.max_position_embeddings, "embedding.position"
    yield from embedding(f"{at}position_embeddings", positions, d, role, padding=pad)
    yield from bert.encoder(c, prefix, pooler=pooler)


def head(c: Config) -> Iterator[Tensor]:
    """RobertaLMHead: its own bias comes first, the decoder's is tied to it."""
    d, at = c.hidden_size, "lm_head."
    yield vector(f"{at}bias", c.vocab_size, "bias")
    yield from linear(f"{at}dense", d, d, "head.transform")
    yield from norm(f"{at}layer_norm", d)
    yield from linear(f"{at}decoder", c.vocab_size, d, "head")


def check(c: Config) -> None:
    """Refuse what BERT refuses, and a padding token without a position."""
    bert.check(c)
    c.require_row("pad_token_id", "max_position_embeddings")


def family(title: str, model_type: str, fields: dict[str, Field], *, head_first: bool) -> Family:
    """Return the family of `<title>ForMaskedLM`."""
    language_model = head_and_body if head_first else body_and_head
    return Family(
        name="roberta",
        model_type=model_type,
        fields=fields,
        architectures={
            f"{title}ForMaskedLM": language_model,
            f"{title}ForCausalLM": language_model,
            f"{title}Model": body,
        },
        tied={
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        auto=bert.auto,
        check=check,
    )


FAMILIES = [
    family("Roberta", "roberta", ROBERTA, head_first=False),
    family("XLMRoberta", "xlm-roberta", XLM_ROBERTA, head_first=True),
    family("Camembert", "camembert", XLM_ROBERTA, head_first=True),
]
