"""A module as a fanin model: each parameter as a tensor with parts, roles and its own `auto` rule.

Three sources, the best first: the family of a transformers model (the names, parts and rules of
`fanin init`), the type of the layer that holds the parameter, and, for what is left, nothing but
its name and shape. What transformers' `_init_weights` would do is `auto` where no family is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from fanin.initializers import Constant, Initializer
from fanin.initializers.values import Values
from fanin.model import PADDING, VALUES, Model, Part, Tensor
from fanin.names import dense_role, in_blocks
from fanin.rules import IDENTITY, Rules, initializer_of
from fanin.torch.constructed import constructed_values
from fanin.torch.hugging_face import (
    Intentions,
    family_model,
    intentions,
    is_of_transformers,
    is_pretrained,
)
from fanin.torch.inventory import Held, Inventory
from fanin.torch.layers import Described, describe, unknown_parameter
from fanin.torch.places import Places, with_role
from fanin.torch.report import InitializationError
from fanin.torch.stored_form import Views, keyed, split, stored_views

__all__ = ["Description", "buffer_values", "describe_module", "given_values"]


@dataclass(frozen=True)
class Description:
    """What is known of the parameters and buffers of a module."""

    model: Model
    buffers: dict[str, torch.Tensor]  # of buffers that the module computes
    copies: dict[str, str]  # parameter -> the stored one that the config ties it to
    drawn: set[str]  # parameters with values that the module draws from torch's generator itself
    views: Views | None = None  # of a model of transformers: what its files hold of it


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
    described = _of_layers(inventory, rest, found)
    if family is None and is_of_transformers(inventory.root):
        described = _constructed(inventory, described, found)
    starts: dict[str, Initializer] = {}  # by tensor
    for tensor, start in described:
        tensors[tensor.name] = tensor
        if start is not None:
            starts[tensor.name] = start
    views = None
    if family is None and is_pretrained(inventory.root):
        tensors, views = _as_stored(inventory, _named_roles(inventory, tensors))
    wanted = {copies.get(name, name) for name in selected}
    order = (*inventory.parameters, *inventory.buffers)
    chosen = tuple(tensors[name] for name in order if name in tensors and name in wanted)
    model = _model(inventory, family, chosen, starts, copies)
    return Description(model, found.buffers, copies, found.drawn, views)


def _constructed(
    inventory: Inventory, described: list[Described], found: Intentions
) -> list[Described]:
    """Give what nothing is said of the values that its constructor gives it, if there are some."""
    missing = {t.name for t, start in described if start is None} - found.unclear
    unknown = [b for b in inventory.buffers.values() if buffer_values(b, found.buffers) is None]
    if not missing and not unknown:
        return described
    try:
        values, drawn = constructed_values(inventory.root)
    except Exception:  # a config that was changed since the module was made
        return described
    found.buffers.update({b.name: values[b.name] for b in unknown if b.name in values})
    result: list[Described] = []
    for tensor, start in described:
        own = values.get(tensor.name) if tensor.name in missing else None
        if tensor.name in missing and tensor.name in drawn:
            result.append((tensor, drawn[tensor.name]))
        elif own is None or own.shape != tensor.shape:
            result.append((tensor, start))
        elif (own == own.flatten()[0]).all():
            result.append((tensor, Constant(float(own.flatten()[0]))))
        else:
            result.append(given_values(tensor.name, own, tensor.shape))
    return result


def _named_roles(inventory: Inventory, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tell the dense layers of a model of transformers apart, and number its blocks."""
    head = inventory.root.get_output_embeddings()
    heads = {id(parameter) for parameter in head.parameters()} if head is not None else set()
    result = {}
    for tensor in in_blocks(tensors.values()):
        if tensor.role == "dense":
            own = id(inventory.parameters[tensor.name].tensor)
            role = "head" if own in heads else dense_role(tensor.name.rpartition(".")[0])
            tensor = with_role(tensor, role)
        result[tensor.name] = tensor
    return result


def _as_stored(
    inventory: Inventory, tensors: dict[str, Tensor]
) -> tuple[dict[str, Tensor], Views | None]:
    """Key the parts of a model of transformers by their names in its files, if they are known."""
    shapes = {
        name: tuple(held.tensor.shape)
        for held in (*inventory.parameters.values(), *inventory.buffers.values())
        for name in (held.name, *held.aliases)
        if held.persistent
    }
    try:
        found = stored_views(inventory.root, shapes)
        if found is None:
            return tensors, None
        views = {
            stored: tuple(replace(view, name=inventory.first_name(view.name)) for view in joined)
            for stored, joined in found.items()
        }
        return keyed(split(tensors, views), views), views
    except (AttributeError, KeyError, ValueError):  # a module that was changed since it was made
        return tensors, None


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
    if tensor.name in found.values:
        return given_values(tensor.name, found.values[tensor.name], tensor.shape)
    start = found.initializers.get(tensor.name, start)
    if tensor.role == "norm.scale" and start == Constant(0.0):
        parts = tuple(replace(part, role="norm.scale.offset") for part in tensor.parts)
        tensor = Tensor.of(tensor.name, tensor.shape, parts)
    return tensor, start


def given_values(name: str, values: torch.Tensor, shape: tuple[int, ...]) -> Described:
    """Return a tensor that the module computes, with its values, which may have to be expanded."""
    if values.dtype in (torch.bfloat16, torch.float16):
        values = values.float()
    tensor = with_role(unknown_parameter(name, shape), VALUES)
    return tensor, Values(values.detach().cpu().numpy())


def buffer_values(held: Held, computed: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Return what a buffer starts from, which may have to be expanded; None if nobody says."""
    if held.name in computed:
        return computed[held.name]
    is_norm = isinstance(held.module, nn.modules.batchnorm._NormBase)
    if is_norm and held.attribute in _STATISTICS:
        return torch.tensor(_STATISTICS[held.attribute], dtype=held.tensor.dtype)
    return None


_STATISTICS = {"running_mean": 0, "running_var": 1, "num_batches_tracked": 0}
"""What the buffers of batch and instance norms start from."""


def _model(
    inventory: Inventory,
    family: Model | None,
    tensors: tuple[Tensor, ...],
    starts: dict[str, Initializer],
    copies: dict[str, str],
) -> Model:
    architecture = type(inventory.root).__name__
    tied = {**inventory.aliases, **copies}
    by_part = {
        part.name: starts[tensor.name]
        for tensor in tensors
        for part in tensor.parts
        if tensor.name in starts
    }
    auto = _auto(tensors, by_part, family.auto if family else {})
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
