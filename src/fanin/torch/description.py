"""A module as a fanin model: each parameter as a tensor with parts, roles and its own `auto` rule.

Three sources, the best first: the family of a transformers model (the names, parts and rules of
`fanin init`), the type of the layer that holds the parameter, and, for what is left, nothing but
its name and shape. What transformers' `_init_weights` would do is `auto` where no family is known.
"""

from __future__ import annotations

import glob
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
from torch import nn

from fanin.initializers import Constant, Initializer
from fanin.model import PADDING, Model, Part, Tensor
from fanin.rules import IDENTITY, Rules, initializer_of
from fanin.torch.hugging_face import Intentions, family_model, intentions
from fanin.torch.inventory import Inventory
from fanin.torch.layers import UNKNOWN, Described, describe, unknown_parameter
from fanin.torch.places import Places
from fanin.torch.report import InitializationError

__all__ = ["Description", "describe_module"]


@dataclass(frozen=True)
class Description:
    """What is known of the parameters and buffers of a module."""

    model: Model
    own: tuple[tuple[str, Initializer], ...]  # (pattern, rule) of parameters without a role
    values: dict[str, torch.Tensor]  # of parameters that the module computes
    buffers: dict[str, torch.Tensor]  # of buffers that the module computes
    copies: dict[str, str]  # parameter -> the stored one that the config ties it to


def describe_module(inventory: Inventory, selected: Collection[str], seed: int) -> Description:
    """Return what is known; of the tensors that can be planned the model has the `selected` only.

    Those are the parameters, and buffers that the family stores.

    Raises
    ------
    InitializationError
        The config of a transformers model describes tensors that the module does not hold.
    """
    family = family_model(inventory.root)
    tensors, copies = _of_family(family, inventory) if family else ({}, {})
    rest = [
        name
        for name, held in inventory.parameters.items()
        if name not in tensors and name not in copies and held.tensor.numel() > 0
    ]
    found = intentions(
        inventory,
        {path for path, module in inventory.modules.items() if module._buffers or rest},
        seed,
    )
    starts: dict[str, Initializer] = {}  # by part
    for tensor, start in _of_layers(inventory, rest, found):
        tensors[tensor.name] = tensor
        if start is not None:
            starts |= {part.name: start for part in tensor.parts}
    values = {name: value for name, value in found.values.items() if name in rest}
    wanted = {copies.get(name, name) for name in selected} - values.keys()
    order = (*inventory.parameters, *inventory.buffers)
    chosen = tuple(tensors[name] for name in order if name in tensors and name in wanted)
    own = tuple(
        (glob.escape(tensor.name), starts[tensor.name])
        for tensor in chosen
        if tensor.role == UNKNOWN and tensor.name in starts
    )
    return Description(
        _model(inventory, family, chosen, starts, copies), own, values, found.buffers, copies
    )


def _of_family(family: Model, inventory: Inventory) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a family that the module holds, and those it holds beside their ties."""
    tensors, never = {}, []
    for tensor in family.tensors:
        name = inventory.first_name(tensor.name)  # which may be that of a head
        held = (inventory.buffers if tensor.buffer else inventory.parameters).get(name)
        if held is None:
            never.append(tensor.name)
        elif tuple(held.tensor.shape) != tensor.shape:
            shape = tuple(held.tensor.shape)
            never.append(f"{tensor.name} of shape {tensor.shape}, here {shape}")
        elif tensor.numel > 0 and name not in tensors:  # it may tie what the config does not
            tensors[name] = replace(tensor, name=name)
    if never:
        raise InitializationError(family.architecture, never=never)
    copies = {
        alias: stored
        for alias, stored in family.tied.items()
        if alias in inventory.parameters and stored in tensors
    }
    return tensors, copies


def _of_layers(inventory: Inventory, names: list[str], found: Intentions) -> list[Described]:
    """Describe parameters by the layers that hold them, and by what transformers would do."""
    missing = dict.fromkeys(names)
    described: list[Described] = []
    for path, module in inventory.modules.items():
        if not any(
            value is not None and inventory.first_name(f"{path}.{key}" if path else key) in missing
            for key, value in module._parameters.items()
        ):
            continue
        for tensor, start in describe(f"{path}." if path else "", module):
            if tensor.name in missing:
                del missing[tensor.name]
                described.append(_intended(tensor, start, found))
    for name in missing:
        tensor = unknown_parameter(name, tuple(inventory.parameters[name].tensor.shape))
        described.append(_intended(tensor, None, found))
    places = Places(inventory)
    return [places.place(tensor, start) for tensor, start in described]


def _intended(tensor: Tensor, start: Initializer | None, found: Intentions) -> Described:
    """Put what transformers would do in the place of what torch does."""
    if tensor.name in found.unclear:
        return tensor, None
    start = found.initializers.get(tensor.name, start)
    if tensor.role == "norm.scale" and start == Constant(0.0):
        parts = tuple(replace(part, role="norm.scale.offset") for part in tensor.parts)
        tensor = Tensor.of(tensor.name, tensor.shape, parts)
    return tensor, start


def _model(
    inventory: Inventory,
    family: Model | None,
    tensors: tuple[Tensor, ...],
    starts: dict[str, Initializer],
    copies: dict[str, str],
) -> Model:
    architecture = type(inventory.root).__name__
    tied = {**inventory.aliases, **copies}
    auto = _auto(tensors, starts, family.auto if family else {})
    if family is not None:
        return replace(family, tensors=tensors, tied=tied, auto=auto)
    blocks = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    modules = inventory.modules.values()
    return Model(
        family="torch",
        model_type="torch",
        architecture=architecture,
        config={},
        tensors=tensors,
        num_layers=max(1, sum(isinstance(module, blocks) for module in modules)),
        hidden_size=_width(inventory),
        activation="relu",
        tied=tied,
        auto=auto,
    )


def _width(inventory: Inventory) -> int:
    """The width of a module's blocks, or of its first embedding; 0 if it has neither."""
    for module in inventory.modules.values():
        if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            return int(module.self_attn.embed_dim)
    tables = (m for m in inventory.modules.values() if isinstance(m, nn.Embedding))
    return next((int(table.embedding_dim) for table in tables), 0)


def _auto(tensors: tuple[Tensor, ...], starts: dict[str, Initializer], family: Rules) -> Rules:
    """The rules of a module: those of its parts, by name; of a family's parts, by role."""

    def rule(part: Part) -> Initializer | None:
        return starts.get(part.name) or initializer_of(family, part)

    roles = {part.role for tensor in tensors for part in tensor.parts}
    return {**dict.fromkeys(roles, rule), PADDING: IDENTITY[PADDING]}
