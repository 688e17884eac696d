"""SigLIP (Zhai et al. 2023): CLIP's two encoders, a pooling head that attends, a scale and a bias.

Initialization as in transformers, which follows the original JAX code: Glorot-uniform for attention
and MLP, whose biases are N(0, 1e-12); LeCun-normal for patches and heads; embeddings N(0, 1 / d).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from fanin.families.clip import (
    BOTH,
    TEXT_MODEL,
    VISION_MODEL,
    attention,
    check_tower,
    patches,
    text_embeddings,
)
from fanin.families.family import COMMON, Family
from fanin.families.fields import Config, count, flag, labels, number, size, sub_config, text
from fanin.families.layers import conv, embedding, linear, norm, part, repeat, vector
from fanin.families.vision import classifier, token
from fanin.initializers import Constant, Initializer, Normal, Uniform
from fanin.initializers.table import glorot_uniform
from fanin.layouts import fans
from fanin.model import Part, Tensor
from fanin.rules import IDENTITY, Rules, by_prefix, trunc_normal

TOWER = {
    **COMMON,
    "hidden_size": size(768),
    "num_hidden_layers": count(12),
    "num_attention_heads": size(12),
    "intermediate_size": size(3072),
    "hidden_act": text("gelu_pytorch_tanh"),
}
TEXT = {
    **TOWER,
    "vocab_size": size(32000),
    "max_position_embeddings": size(64),
    "projection_size": size(None, null=lambda c: c.hidden_size),
}
VISION = {
    **TOWER,
    "num_channels": size(3),
    "image_size": size(224),
    "patch_size": size(16),
    "vision_use_head": flag(True),
}
SIGLIP = {
    **COMMON,
    "text": sub_config(TEXT, "text_config"),
    "vision": sub_config(VISION, "vision_config"),
    **BOTH,
    "initializer_factor": number(1.0),
    **labels(),
}


def siglip(c: Config) -> Iterator[Tensor]:
    """SiglipModel."""
    yield vector("logit_scale", 1, "logit_scale")
    yield vector("logit_bias", 1, "logit_bias")
    yield from text_tower(c.text, TEXT_MODEL)
    yield from vision_tower(c.vision, VISION_MODEL)


def image_classification(c: Config) -> Iterator[Tensor]:
    """SiglipForImageClassification."""
    yield from vision_tower(c.vision, VISION_MODEL)
    yield from classifier("classifier", c, c.vision.hidden_size)


def text_tower(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """SiglipTextModel."""
    check_tower(c)
    d = c.hidden_size
    yield from text_embeddings(c, f"{prefix}embeddings.")
    yield from repeat(f"{prefix}encoder.layers", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}final_layer_norm", d)
    yield from linear(f"{prefix}head", c.projection_size, d, "head.projection")


def vision_tower(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """SiglipVisionModel."""
    d, at, kernel = c.hidden_size, f"{prefix}embeddings.", (c.patch_size, c.patch_size)
    yield from conv(f"{at}patch_embedding", d, c.num_channels, kernel, "conv.patch")
    yield from embedding(f"{at}position_embedding", patches(c), d, "embedding.position")
    yield from repeat(f"{prefix}encoder.layers", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}post_layernorm", d)
    if c.vision_use_head:
        yield from pooling_head(c, f"{prefix}head.")


def block(c: Config, at: str) -> Iterator[Tensor]:
    """SiglipEncoderLayer."""
    yield from norm(f"{at}layer_norm1", c.hidden_size)
    yield from attention(c, f"{at}self_attn.")
    yield from norm(f"{at}layer_norm2", c.hidden_size)
    yield from mlp(c, f"{at}mlp.", "mlp")


def mlp(c: Config, at: str, role: str) -> Iterator[Tensor]:
    """SiglipMLP."""
    d, inner, bias = c.hidden_size, c.intermediate_size, "bias.mlp"
    yield from linear(f"{at}fc1", inner, d, f"{role}.in", bias_role=bias)
    yield from linear(f"{at}fc2", d, inner, f"{role}.out", bias_role=bias)


def pooling_head(c: Config, at: str) -> Iterator[Tensor]:
    """SiglipMultiheadAttentionPoolingHead: a learned query attends to the patches."""
    d = c.hidden_size
    yield token(f"{at}probe", d, "embedding.probe")
    yield from fused_attention(d, f"{at}attention.")
    yield from norm(f"{at}layernorm", d)
    yield from mlp(c, f"{at}mlp.", "mlp.pool")


def fused_attention(d: int, at: str) -> Iterator[Tensor]:
    """nn.MultiheadAttention: query, key and value lie one after another."""
    for kind, rest, layout in (("weight", (d,), "oi"), ("bias", (), None)):
        name = f"{at}in_proj_{kind}"
        parts = tuple(
            part(
                f"{name}#{label}",
                "bias" if kind == "bias" else f"attention.pool.{label}",
                (d, *rest),
                layout,
                at=(number * d, *(0 for _ in rest)),
                fan_in=d if kind == "bias" else None,
            )
            for number, label in enumerate(("query", "key", "value"))
        )
        yield Tensor.of(name, (3 * d, *rest), parts)
    yield from linear(f"{at}out_proj", d, d, "attention.pool.out")


def check(c: Config) -> None:
    """Check the tower that every model has; the other one is checked where it is used."""
    check_tower(c.vision)


def auto(c: Config) -> Rules:
    """`SiglipPreTrainedModel._init_weights` of a model of two towers."""
    std = 1.0 / math.sqrt(c.vision.hidden_size) * c.initializer_factor
    towers = {TEXT_MODEL: tower_auto(c.text), VISION_MODEL: tower_auto(c.vision)}
    zeros = dict.fromkeys(("logit_scale", "logit_bias"), Constant(0.0))
    return by_prefix({**towers, "": {**IDENTITY, **zeros, "head": Normal(std=std)}})


def tower_auto(c: Config) -> Rules:
    """Return the rules of one tower. The fused matrix is drawn as one, as torch draws it."""
    d = c.hidden_size
    return {
        **IDENTITY,
        "bias.mlp": Normal(std=1e-6),
        "embedding": Normal(std=1.0 / math.sqrt(d)),
        "embedding.probe": _symmetric(math.sqrt(6.0 / (d + d))),
        "conv.patch": _lecun,
        "attention": glorot_uniform(),
        "attention.pool": _symmetric(math.sqrt(6.0 / (d + 3 * d))),
        "attention.pool.out": _lecun,
        "mlp": glorot_uniform(),
        "head": _lecun,
    }


def _lecun(part: Part) -> Initializer:
    """`lecun_normal_` of transformers: variance 1 / fan_in, were it cut at two sigma as in JAX."""
    fan_in, _ = fans(part.shape, part.layout)
    return trunc_normal(math.sqrt(1.0 / fan_in) / 0.87962566103423978)


def _symmetric(limit: float) -> Uniform:
    return Uniform(-limit, limit)


FAMILIES = [
    Family("siglip", model_type, fields, architectures, {}, rules, checks)
    for model_type, fields, architectures, rules, checks in (
        (
            "siglip",
            SIGLIP,
            {"SiglipModel": siglip, "SiglipForImageClassification": image_classification},
            auto,
            check,
        ),
        ("siglip_text_model", TEXT, {"SiglipTextModel": text_tower}, tower_auto, check_tower),
        (
            "siglip_vision_model",
            VISION,
            {"SiglipVisionModel": vision_tower},
            tower_auto,
            check_tower,
        ),
    )
]
