"""ELECTRA (Clark et al. 2020): BERT's encoder over embeddings that may be narrower than it is.

The discriminator tells replaced tokens from others; the generator, which replaces them, has a tied
head. The row of the padding token is zero. Initialization as in transformers:
N(0, initializer_range^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families import bert
from fanin.families.family import Family
from fanin.families.fields import Config, size
from fanin.families.layers import linear, norm
from fanin.model import Tensor

FIELDS = {
    **bert.FIELDS,
    "embedding_size": size(128),
    "hidden_size": size(256),
    "num_attention_heads": size(4),
    "intermediate_size": size(1024),
}


def discriminator(c: Config) -> Iterator[Tensor]:
    """ElectraForPreTraining."""
    d, at = c.hidden_size, "discriminator_predictions."
    yield from body(c, "electra.")
    yield from linear(f"{at}dense", d, d, "head.transform")
    yield from linear(f"{at}dense_prediction", 1, d, "head")


def generator(c: Config) -> Iterator[Tensor]:
    """ElectraForMaskedLM, and ElectraForCausalLM."""
    width, at = c.embedding_size, "generator_predictions."
    yield from body(c, "electra.")
    yield from norm(f"{at}LayerNorm", width)
    yield from linear(f"{at}dense", width, c.hidden_size, "head.transform")
    yield from linear("generator_lm_head", c.vocab_size, width, "head")


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """ElectraModel."""
    yield from bert.embeddings(c, f"{prefix}embeddings.", c.embedding_size)
    if c.embedding_size != c.hidden_size:
        at = f"{prefix}embeddings_project"
        yield from linear(at, c.hidden_size, c.embedding_size, "dense")
    yield from bert.encoder(c, prefix, pooler=False)


FAMILIES = [
    Family(
        name="electra",
        model_type="electra",
        fields=FIELDS,
        architectures={
            "ElectraForPreTraining": discriminator,
            "ElectraForMaskedLM": generator,
            "ElectraForCausalLM": generator,
            "ElectraModel": body,
        },
        tied={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
        auto=bert.auto,
        check=bert.check,
    )
]
