"""DINOv2 (Oquab et al. 2023): a ViT whose branches are scaled, with a dense or a gated MLP.

Initialization as in transformers: weights, class token and positions from N(0, initializer_range^2)
cut at -2 and 2 (as values), the scales of the branches at `layerscale_value`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from fanin.families import vision
from fanin.families.family import Family
from fanin.families.fields import Config, derived, flag, pair, real, size, text
from fanin.families.layers import fused_linear, linear, norm, part, repeat, vector
from fanin.families.vision import attention, classifier, patch_embedding, patches, token
from fanin.initializers import Constant
from fanin.model import Tensor
from fanin.rules import Rules, trunc_normal, weights

FIELDS = {
    **vision.FIELDS,
    "patch_size": pair(14),
    "mlp_ratio": size(4),
    "layerscale_value": real(1.0),
    "use_swiglu_ffn": flag(False),
    "use_mask_token": flag(True),
    "mlp_act": text("gelu", "hidden_act"),
    "hidden_act": derived(lambda c: "silu" if c.use_swiglu_ffn else c.mlp_act),
}


def image_classification(c: Config) -> Iterator[Tensor]:
    """Dinov2ForImageClassification: it scores the class token and the mean of the patches."""
    yield from body(c, "dinov2.")
    yield from classifier("classifier", c, 2 * c.hidden_size)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """Dinov2Model, and Dinov2Backbone."""
    d, at = c.hidden_size, f"{prefix}embeddings."
    yield token(f"{at}cls_token", d, "embedding.class")
    if c.use_mask_token:
        mask = f"{at}mask_token"
        yield Tensor.of(mask, (1, d), (part(mask, "embedding.mask", (1, d), "oi"),))
    yield token(f"{at}position_embeddings", d, "embedding.position", rows=patches(c) + 1)
    yield from patch_embedding(c, f"{at}patch_embeddings.projection")
    yield from repeat(f"{prefix}encoder.layer", c.num_hidden_layers, partial(block, c))
    yield from norm(f"{prefix}layernorm", d)


def block(c: Config, at: str) -> Iterator[Tensor]:
    """Dinov2Layer."""
    d = c.hidden_size
    yield from norm(f"{at}norm1", d)
    yield from attention(c, f"{at}attention.")
    yield vector(f"{at}layer_scale1.lambda1", d, "layer_scale")
    yield from norm(f"{at}norm2", d)
    yield from (gated_mlp if c.use_swiglu_ffn else dense_mlp)(c, f"{at}mlp.")
    yield vector(f"{at}layer_scale2.lambda1", d, "layer_scale")


def dense_mlp(c: Config, at: str) -> Iterator[Tensor]:
    """Dinov2MLP."""
    d, inner = c.hidden_size, c.hidden_size * c.mlp_ratio
    yield from linear(f"{at}fc1", inner, d, "mlp.in")
    yield from linear(f"{at}fc2", d, inner, "mlp.out")


def gated_mlp(c: Config, at: str) -> Iterator[Tensor]:
    """Dinov2SwiGLUFFN: two thirds as wide, in steps of 8; gate and up are one tensor in files."""
    d = c.hidden_size
    inner = (2 * d * c.mlp_ratio // 3 + 7) // 8 * 8
    yield from fused_linear(f"{at}weights_in", {"gate": inner, "up": inner}, d, "mlp")
    yield from linear(f"{at}weights_out", d, inner, "mlp.out")


def auto(c: Config) -> Rules:
    """`Dinov2PreTrainedModel._init_weights`, which takes an initializer_range of 0 as it is."""
    return {
        **weights(trunc_normal(c.initializer_range)),
        "embedding.mask": Constant(0.0),
        "layer_scale": Constant(c.layerscale_value),
    }


def module_name(stored: str) -> str:
    """Return what the module calls a tensor, or one of the two that are fused in files."""
    if found := re.fullmatch(r"(.*\.mlp\.)weights_in\.(weight|bias)#(gate|up)", stored):
        at, kind, label = found.groups()
        return f"{at}{label}_proj.{kind}"
    for ours, theirs in LAYERS.items():
        stored = stored.replace(ours, theirs)
    return stored


LAYERS = {
    ".attention.attention.query.": ".attention.q_proj.",
    ".attention.attention.key.": ".attention.k_proj.",
    ".attention.attention.value.": ".attention.v_proj.",
    ".attention.output.dense.": ".attention.o_proj.",
    ".mlp.weights_out.": ".mlp.down_proj.",
}
"""Layers of a block in files, and in the module."""

FAMILIES = [
    Family(
        name="dinov2",
        model_type="dinov2",
        fields=FIELDS,
        architectures={
            "Dinov2Model": body,
            "Dinov2ForImageClassification": image_classification,
            "Dinov2Backbone": body,
        },
        tied={},
        auto=auto,
        check=vision.check,
        module_names=module_name,
    )
]
