"""What vision transformers share: images cut in patches, learned tokens, blocks, class labels.

A patch is embedded by a convolution whose stride is its kernel. Position tables and tokens are
parameters of their own, with a first axis of size 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fanin.families.family import COMMON
from fanin.families.fields import Config, Field, count, flag, labels, pair, size
from fanin.families.layers import conv, linear, part
from fanin.model import Tensor

__all__ = ["FIELDS", "attention", "check", "classifier", "patch_embedding", "patches", "token"]

FIELDS: Mapping[str, Field] = {
    **COMMON,
    "hidden_size": size(768),
    "num_hidden_layers": count(12),
    "num_attention_heads": size(12),
    "head_dim": size(None, null=lambda c: c.hidden_size // c.num_attention_heads),
    "image_size": pair(224),
    "patch_size": pair(16),
    "num_channels": size(3),
    "qkv_bias": flag(True),
    **labels(),
}
"""Those of ViT, DeiT and DINOv2."""


def patches(c: Config) -> int:
    """Return the number of patches in an image; what is left at its edges is not seen."""
    (height, width), (patch_height, patch_width) = c.image_size, c.patch_size
    return int((height // patch_height) * (width // patch_width))


def token(name: str, width: int, role: str, *, rows: int = 1) -> Tensor:
    """Return a learned token, or a table of positions: (1, rows, width)."""
    shape = (1, rows, width)
    return Tensor.of(name, shape, (part(name, role, shape, "boi"),))


def patch_embedding(c: Config, name: str, *, bias: bool = True) -> Iterator[Tensor]:
    """Yield the convolution that makes a vector of each patch."""
    kernel = tuple(c.patch_size)
    yield from conv(name, c.hidden_size, c.num_channels, kernel, "conv.patch", bias=bias)


def attention(c: Config, at: str) -> Iterator[Tensor]:
    """Yield query, key, value and output by the names in files; the module's are others."""
    d, inner = c.hidden_size, c.num_attention_heads * c.head_dim
    for name in ("query", "key", "value"):
        yield from linear(f"{at}attention.{name}", inner, d, f"attention.{name}", bias=c.qkv_bias)
    yield from linear(f"{at}output.dense", d, inner, "attention.out")


def classifier(name: str, c: Config, width: int) -> Iterator[Tensor]:
    """Yield the layer that scores the classes; without classes there is none."""
    if c.num_labels > 0:
        yield from linear(name, c.num_labels, width, "head")


def check(c: Config) -> None:
    """Refuse images that hold no patch."""
    for side, (image, patch) in enumerate(zip(c.image_size, c.patch_size, strict=True)):
        if image < patch:
            reason = f"must be at least {c.label('patch_size')}, which is {c.patch_size[side]}"
            c.refuse("image_size", reason)
