"""ViT (Dosovitskiy et al. 2021), and DeiT (Touvron et al. 2021) with its token for distillation.

Pre-norm encoder on patches and a class token. Initialization as in transformers: weights
N(0, initializer_range^2); ViT's class token and positions from the same normal, cut at -2 and 2 (as
values); DeiT's are zero. Files have other names for the layers than the module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from fanin.families import vision
from fanin.families.family import Family
from fanin.families.fields import Config, fixed, size, text
from fanin.families.layers import conv, linear, norm, repeat
from fanin.families.vision import attention, classifier, patch_embedding, patches, token
from fanin.initializers import Constant
from fanin.model import Tensor
from fanin.rules import Rules, normal_weights, trunc_normal

VIT = {
    **vision.FIELDS,
    "hidden_act": text("gelu"),
    "intermediate_size": size(3072),
    "encoder_stride": size(16),
    "pooler_output_size": size(None, null=lambda c: c.hidden_size),
    "distilled": fixed(False),
}
DEIT = {**VIT, "distilled": fixed(True)}

Architecture = Callable[[Config], Iterator[Tensor]]


def embeddings(c: Config, at: str, *, mask: bool) -> Iterator[Tensor]:
    """ViTEmbeddings, and DeiTEmbeddings."""
    d = c.hidden_size
    yield token(f"{at}cls_token", d, "embedding.class")
    if mask:
        yield token(f"{at}mask_token", d, "embedding.mask")
    positions = patches(c) + 1 + c.distilled
    yield token(f"{at}position_embeddings", d, "embedding.position", rows=positions)
    if c.distilled:
        yield token(f"{at}distillation_token", d, "embedding.distillation")
    yield from patch_embedding(c, f"{at}patch_embeddings.projection")


def encoder(
    c: Config, prefix: str, *, mask: bool = False, pooler: bool = False
) -> Iterator[Tensor]:
    """ViTModel, and DeiTModel."""
    yield from embeddings(c, f"{prefix}embeddings.", mask=mask)
    yield from repeat(f"{prefix}encoder.layer", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}layernorm", c.hidden_size)
    if pooler:
        yield from linear(
            f"{prefix}pooler.dense", c.pooler_output_size, c.hidden_size, "head.pooler"
        )


def block(c: Config, at: str) -> Iterator[Tensor]:
    """ViTLayer."""
    d = c.hidden_size
    yield from attention(c, f"{at}attention.")
    yield from norm(f"{at}layernorm_before", d)
    yield from norm(f"{at}layernorm_after", d)
    yield from linear(f"{at}intermediate.dense", c.intermediate_size, d, "mlp.in")
    yield from linear(f"{at}output.dense", d, c.intermediate_size, "mlp.out")


def body(c: Config) -> Iterator[Tensor]:
    """ViTModel by itself."""
    yield from encoder(c, "", pooler=True)


def image_classification(prefix: str, *heads: str) -> Architecture:
    """Return the tensors of a model with a layer of scores, or two of them."""

    def tensors(c: Config) -> Iterator[Tensor]:
        yield from encoder(c, prefix)
        for head in heads:
            yield from classifier(head, c, c.hidden_size)

    return tensors


def masked_image_modeling(prefix: str) -> Architecture:
    """Return the tensors of a model that draws the pixels of masked patches."""

    def tensors(c: Config) -> Iterator[Tensor]:
        yield from encoder(c, prefix, mask=True)
        pixels = c.encoder_stride**2 * c.num_channels
        yield from conv("decoder.0", pixels, c.hidden_size, (1, 1), "head")

    return tensors


def auto(c: Config) -> Rules:
    """`ViTPreTrainedModel._init_weights`; a range of 0 means 0.02 to the weights only."""
    rules = normal_weights(c.initializer_range or 0.02)
    start = Constant(0.0) if c.distilled else trunc_normal(c.initializer_range)
    rules |= dict.fromkeys(("embedding.class", "embedding.position"), start)
    return rules | dict.fromkeys(("embedding.mask", "embedding.distillation"), Constant(0.0))


def module_name(stored: str) -> str:
    """Return what the module calls a tensor."""
    if not (found := re.fullmatch(r"(.*?)encoder\.layer\.(\d+\.)(.*)(\.weight|\.bias)", stored)):
        return stored
    prefix, number, layer, kind = found.groups()
    return f"{prefix}layers.{number}{LAYERS.get(layer, layer)}{kind}"


LAYERS = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
"""Layers of a block in files, and in the module."""

family = partial(
    Family, name="vit", tied={}, auto=auto, check=vision.check, module_names=module_name
)

FAMILIES = [
    family(
        model_type="vit",
        fields=VIT,
        architectures={
            "ViTForImageClassification": image_classification("vit.", "classifier"),
            "ViTForMaskedImageModeling": masked_image_modeling("vit."),
            "ViTModel": body,
        },
    ),
    family(
        model_type="deit",
        fields=DEIT,
        architectures={
            "DeiTForImageClassification": image_classification("deit.", "classifier"),
            "DeiTForImageClassificationWithTeacher": image_classification(
                "deit.", "cls_classifier", "distillation_classifier"
            ),
            "DeiTForMaskedImageModeling": masked_image_modeling("deit."),
            "DeiTModel": body,
        },
    ),
]
