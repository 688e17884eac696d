"""What a parameter is by its place, where its layer's type says less: a role, and a block.

A `Linear` is a layer of which nothing more is known; in a `TransformerEncoderLayer` it is one half
of the MLP, under `lora_A` it is an adapter, and as `fc` of the whole module it is the head. Roles
that a layer's type gives are only made more precise, so that schemes without a rule for the place
take the one they have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn

from fanin.initializers import Initializer
from fanin.model import Tensor
from fanin.rules import IDENTITY
from fanin.torch.inventory import Inventory
from fanin.torch.layers import Described

__all__ = ["Places", "with_role"]

HEADS = ("lm_head", "head", "fc", "classifier", "score")
"""Names of a module's output layer, as torchvision, timm and transformers have them."""

RESIDUAL_BLOCK = r"BasicBlock|Bottle[nN]eck|BasicLayer|Res(idual|Net)?Block"
"""Classes of convolutional blocks that add their input to what they compute."""

SHORTCUT = r"(^|\.)(down_?sample|shortcut|skip|proj(ection)?_shortcut)(\.|$)"
"""Names of what stands beside the branch in such a block."""

BLOCKS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


class Places:
    """The roles that a module's structure gives to its parameters, by name."""

    def __init__(self, inventory: Inventory) -> None:
        self.roles: dict[str, str] = {}
        self.blocks: dict[str, tuple[int, int]] = {}  # path -> number, branches of its stack
        modules = inventory.modules
        for name in HEADS:
            if isinstance(modules.get(name), nn.Linear):
                self.roles |= {f"{name}.weight": "head", f"{name}.bias": "bias.head"}
        stacks = Counter(
            _parent(path) for path, each in modules.items() if isinstance(each, BLOCKS)
        )
        for path, module in modules.items():
            if isinstance(module, BLOCKS):
                at = f"{path}." if path else ""
                self.roles |= {f"{at}linear1.weight": "mlp.in", f"{at}linear2.weight": "mlp.out"}
                number = path.rpartition(".")[2]
                branches = 3 if isinstance(module, nn.TransformerDecoderLayer) else 2
                self.blocks[at] = (
                    int(number) if number.isdigit() else 0,
                    branches * stacks[_parent(path)],
                )
            elif re.search(RESIDUAL_BLOCK, type(module).__name__):
                self.roles.update(_residual_block(path, module))

    def place(self, tensor: Tensor, start: Initializer | None) -> Described:
        """Return a tensor with its role by place, and an adapter with what adapters start from."""
        if (adapter := _adapter(tensor)) is not None:
            return with_role(tensor, adapter), _initializer(adapter)
        for path, (layer, branches) in self.blocks.items():
            if tensor.name.startswith(path):
                tensor = tensor.in_layer(layer, branches)
        role = self.roles.get(tensor.name)
        if role is not None and tensor.role in _GENERAL.get(role.split(".")[0], ()):
            tensor = with_role(tensor, role)
        return tensor, start


_GENERAL = {
    "mlp": ("dense",),
    "head": ("dense",),
    "bias": ("bias",),
    "conv": ("conv",),
    "norm": ("norm.scale",),
}
"""The roles by type that a role by place makes more precise."""


def _residual_block(path: str, block: nn.Module) -> Iterator[tuple[str, str]]:
    """The convolutions of the branch, and the scale of the norm that ends it."""
    convolutions, norms = [], []
    for name, module in block.named_modules():
        if re.search(SHORTCUT, name):
            continue
        at = f"{path}.{name}.weight" if path else f"{name}.weight"
        if isinstance(module, nn.modules.conv._ConvNd):
            convolutions.append(at)
            last: Any = module
        elif isinstance(module, nn.modules.batchnorm._NormBase):
            norms.append(at)
            last = module
    if convolutions:
        yield from ((name, "conv.branch") for name in convolutions[:-1])
        yield convolutions[-1], "conv.out"
    if norms and isinstance(last, nn.modules.batchnorm._NormBase):
        yield norms[-1], "norm.scale.last"


def _adapter(tensor: Tensor) -> str | None:
    """The role of one of a LoRA pair, by the names that peft and loralib give."""
    words = tensor.name.split(".")
    for word, role in _ADAPTERS.items():
        if word in words and len(tensor.shape) > 1:
            return role
    return None


_ADAPTERS = {
    "lora_A": "lora.a",
    "lora_B": "lora.b",
    "lora_embedding_A": "lora.a.embedding",
    "lora_embedding_B": "lora.b.embedding",
}


def _initializer(role: str) -> Initializer:
    rule = IDENTITY[role]
    assert isinstance(rule, Initializer)
    return rule


def with_role(tensor: Tensor, role: str) -> Tensor:
    """Return a tensor with another role."""
    parts = tuple(replace(part, role=role) for part in tensor.parts)
    return replace(tensor, role=role, parts=parts)


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
