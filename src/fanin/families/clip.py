"""CLIP (Radford et al. 2021): a text and an image encoder, their projections, and a logit scale.

Each encoder is a model by itself too, with or without its projection. Initialization as in
transformers, tower by tower: 0.02 for embeddings, d^-1/2 for what leaves attention and, with a
factor sqrt(2 L) less, for what enters it and what ends the MLP; all times `initializer_factor`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from fanin.families.family import COMMON, Family
from fanin.families.fields import (
    Config,
    count,
    derived,
    labels,
    number,
    real,
    size,
    sub_config,
    text,
)
from fanin.families.layers import conv, embedding, linear, norm, part, repeat
from fanin.families.vision import classifier
from fanin.initializers import Constant, Normal
from fanin.model import Tensor
from fanin.rules import IDENTITY, Rules, by_prefix

TOWER = {
    **COMMON,
    "num_hidden_layers": count(12),
    "hidden_act": text("quick_gelu"),
    "projection_dim": size(512),
    "initializer_factor": number(1.0),
}
TEXT = {
    **TOWER,
    "vocab_size": size(49408),
    "hidden_size": size(512),
    "num_attention_heads": size(8),
    "intermediate_size": size(2048),
    "max_position_embeddings": size(77),
}
VISION = {
    **TOWER,
    "hidden_size": size(768),
    "num_attention_heads": size(12),
    "intermediate_size": size(3072),
    "num_channels": size(3),
    "image_size": size(224),
    "patch_size": size(32),
}
BOTH = {
    "num_hidden_layers": derived(
        lambda c: max(c.text.num_hidden_layers, c.vision.num_hidden_layers)
    ),
    "hidden_size": derived(lambda c: max(c.text.hidden_size, c.vision.hidden_size)),
    "hidden_act": derived(lambda c: c.vision.hidden_act),
}
"""What is asked of a model as a whole: it is as deep and as wide as the larger tower."""

CLIP = {
    **COMMON,
    "text": sub_config(TEXT, "text_config", "text_config_dict"),
    "vision": sub_config(VISION, "vision_config", "vision_config_dict"),
    **BOTH,
    "projection_dim": size(512),
    "logit_scale_init_value": real(2.6592),
    "initializer_factor": number(1.0),
    **labels(),
}

TEXT_MODEL, VISION_MODEL = "text_model.", "vision_model."


def clip(c: Config) -> Iterator[Tensor]:
    """CLIPModel."""
    yield Tensor.of("logit_scale", (), (part("logit_scale", "logit_scale", (), None),))
    yield from text_tower(c.text, TEXT_MODEL)
    yield from vision_tower(c.vision, VISION_MODEL)
    yield from projection("visual_projection", c.projection_dim, c.vision.hidden_size)
    yield from projection("text_projection", c.projection_dim, c.text.hidden_size)


def image_classification(c: Config) -> Iterator[Tensor]:
    """CLIPForImageClassification."""
    yield from vision_tower(c.vision, VISION_MODEL)
    yield from classifier("classifier", c, c.vision.hidden_size)


def text_with_projection(c: Config) -> Iterator[Tensor]:
    """CLIPTextModelWithProjection."""
    yield from text_tower(c, TEXT_MODEL)
    yield from projection("text_projection", c.projection_dim, c.hidden_size)


def vision_with_projection(c: Config) -> Iterator[Tensor]:
    """CLIPVisionModelWithProjection."""
    yield from vision_tower(c, VISION_MODEL)
    yield from projection("visual_projection", c.projection_dim, c.hidden_size)


def projection(name: str, width: int, fan_in: int) -> Iterator[Tensor]:
    """Yield the layer that leads to the space of both towers."""
    yield from linear(name, width, fan_in, "head.projection", bias=False)


def text_tower(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """CLIPTextModel."""
    yield from text_embeddings(c, f"{prefix}embeddings.")
    yield from repeat(f"{prefix}encoder.layers", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}final_layer_norm", c.hidden_size)


def vision_tower(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """CLIPVisionModel; the name of its first norm is misspelled for good."""
    d, at, kernel = c.hidden_size, f"{prefix}embeddings.", (c.patch_size, c.patch_size)
    token = f"{at}class_embedding"
    yield Tensor.of(token, (d,), (part(token, "embedding.class", (d,), "i"),))
    yield from conv(f"{at}patch_embedding", d, c.num_channels, kernel, "conv.patch", bias=False)
    yield from embedding(f"{at}position_embedding", patches(c) + 1, d, "embedding.position")
    yield from norm(f"{prefix}pre_layrnorm", d)
    yield from repeat(f"{prefix}encoder.layers", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}post_layernorm", d)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """CLIPEncoderLayer."""
    yield from attention(c, f"{at}self_attn.")
    yield from norm(f"{at}layer_norm1", c.hidden_size)
    yield from linear(f"{at}mlp.fc1", c.intermediate_size, c.hidden_size, "mlp.in")
    yield from linear(f"{at}mlp.fc2", c.hidden_size, c.intermediate_size, "mlp.out")
    yield from norm(f"{at}layer_norm2", c.hidden_size)


def text_embeddings(c: Config, at: str) -> Iterator[Tensor]:
    """Yield the tables of tokens and positions."""
    d, positions = c.hidden_size, c.max_position_embeddings
    yield from embedding(f"{at}token_embedding", c.vocab_size, d)
    yield from embedding(f"{at}position_embedding", positions, d, "embedding.position")


def attention(c: Config, at: str) -> Iterator[Tensor]:
    """Yield key, value, query and output, in this order."""
    for name in ("key", "value", "query"):
        d = c.hidden_size
        yield from linear(f"{at}{name[0]}_proj", d, d, f"attention.{name}")
    yield from linear(f"{at}out_proj", c.hidden_size, c.hidden_size, "attention.out")


def patches(c: Config) -> int:
    """Return the number of patches in a square image."""
    return int(c.image_size // c.patch_size) ** 2


def auto(c: Config) -> Rules:
    """`CLIPPreTrainedModel._init_weights`: each tower is a model with a factor of its own."""
    projected = {
        name: _std(tower, c.initializer_factor)
        for name, tower in (("text_projection", c.text), ("visual_projection", c.vision))
    }
    towers = {TEXT_MODEL: tower_auto(c.text), VISION_MODEL: tower_auto(c.vision)}
    heads = {name: {"head": Normal(std=std)} for name, std in projected.items()}
    head = {"head": Normal(std=projected["visual_projection"])}
    scale = {"logit_scale": Constant(c.logit_scale_init_value)}
    return by_prefix({**towers, **heads, "": {**IDENTITY, **head, **scale}})


def tower_auto(c: Config) -> Rules:
    """Return the rules of one tower, with its own projection."""
    factor = c.initializer_factor
    std = _std(c, factor)
    small = 1.0 / math.sqrt(c.hidden_size) * (1.0 / math.sqrt(2 * c.num_hidden_layers)) * factor
    vision = "patch_size" in vars(c)
    positions = c.initializer_range if vision else 0.02
    return {
        **IDENTITY,
        "embedding": Normal(std=factor * 0.02),
        "embedding.position": Normal(std=positions * factor),
        "embedding.class": Normal(std=std),
        "conv.patch": Normal(std=c.initializer_range * factor),
        "attention": Normal(std=small),
        "attention.out": Normal(std=std),
        "mlp.in": Normal(std=1.0 / math.sqrt(2 * c.hidden_size) * factor),
        "mlp.out": Normal(std=small),
        "head": Normal(std=std),
    }


def _std(tower: Config, factor: float) -> float:
    return 1.0 / math.sqrt(tower.hidden_size) * factor


def check_tower(c: Config) -> None:
    """Refuse heads that do not divide the width, and images that hold no patch."""
    c.require_multiple("hidden_size", of="num_attention_heads")
    if "patch_size" in vars(c) and c.image_size < c.patch_size:
        c.refuse("image_size", f"must be at least {c.label('patch_size')}, which is {c.patch_size}")


def check(c: Config) -> None:
    """Check both towers."""
    check_tower(c.text)
    check_tower(c.vision)


Architecture = Callable[[Config], Iterator[Tensor]]

FAMILIES = [
    Family("clip", model_type, fields, architectures, {}, rules, checks)
    for model_type, fields, architectures, rules, checks in (
        (
            "clip",
            CLIP,
            {"CLIPModel": clip, "CLIPForImageClassification": image_classification},
            auto,
            check,
        ),
        (
            "clip_text_model",
            TEXT,
            {"CLIPTextModel": text_tower, "CLIPTextModelWithProjection": text_with_projection},
            tower_auto,
            check_tower,
        ),
        (
            "clip_vision_model",
            VISION,
            {
                "CLIPVisionModel": vision_tower,
                "CLIPVisionModelWithProjection": vision_with_projection,
            },
            tower_auto,
            check_tower,
        ),
    )
]
