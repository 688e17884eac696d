"""Every parameter and buffer of a module once, under the name that it has without wrappers.

`torch.compile`, DistributedDataParallel and checkpoint wrappers put a word of their own into names;
a name here has none of them, so that wrapping changes no weight. A parameter that a second module
holds too is an alias of the first, also where two parameters share their memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import torch
from torch import nn

from fanin.torch.report import InitializationError
from fanin.torch.sampling import dispatches
from fanin.torch.sharding import is_sharded

__all__ = ["Held", "Inventory", "local_tensor", "take_inventory"]

_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
}
"""Class of a wrapper, and what it calls the module that it wraps."""


@dataclass(frozen=True)
class Held:
    """A tensor that a module holds, and where."""

    name: str  # qualified, without wrappers
    tensor: torch.Tensor
    module: nn.Module
    attribute: str
    persistent: bool = True  # false for a buffer that is not saved
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Inventory:
    """The parameters and buffers of a module, in the order of its state_dict."""

    modules: dict[str, nn.Module]  # by path without wrappers, parents first; "" is the root
    parameters: dict[str, Held]
    buffers: dict[str, Held]

    @property
    def root(self) -> nn.Module:
        """The module itself, without its wrappers."""
        return self.modules[""]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Each other name of a parameter or buffer, and the name it stands under."""
        every = (*self.parameters.values(), *self.buffers.values())
        return {alias: held.name for held in every for alias in held.aliases}

    def first_name(self, name: str) -> str:
        """Return the name that a tensor stands under, from any of its names."""
        return self.aliases.get(name, name)


def take_inventory(module: nn.Module) -> Inventory:
    """Return what a module holds.

    Raises
    ------
    InitializationError
        Two parameters share a part of their memory.
    ValueError
        FSDP1 holds the parameters in flat pieces.

    Examples
    --------
    >>> block = nn.Sequential(nn.Linear(2, 2, bias=False))
    >>> list(take_inventory(nn.DataParallel(block)).parameters)
    ['0.weight']
    """
    modules: dict[int, tuple[str, nn.Module]] = {}
    parameters: dict[object, Held] = {}
    buffers: dict[object, Held] = {}
    for path, owner in _walk(module, ""):
        modules.setdefault(id(owner), (path, owner))
        for found, tensors in ((parameters, owner._parameters), (buffers, owner._buffers)):
            for attribute, tensor in tensors.items():
                if tensor is None:
                    continue
                name = f"{path}.{attribute}" if path else attribute
                persistent = attribute not in owner._non_persistent_buffers_set
                held = Held(name, tensor, owner, attribute, persistent)
                first = found.setdefault(_identity(tensor), held)
                if first is not held:
                    first.aliases.append(name)
    _check_overlaps(list(parameters.values()))
    by_name = ({held.name: held for held in found.values()} for found in (parameters, buffers))
    return Inventory(dict(modules.values()), *by_name)


def local_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a DTensor that this process holds; any other tensor as it is."""
    if is_sharded(tensor):
        with torch.no_grad():
            local: torch.Tensor = tensor.to_local()
        return local
    return tensor


def _walk(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules at all their paths, parents first; of a wrapper, what it wraps."""
    classes = [cls.__name__ for cls in type(module).__mro__]
    if "FullyShardedDataParallel" in classes:
        raise ValueError(
            f"{path or 'the module'} is a FullyShardedDataParallel (FSDP1), whose parameters are"
            " flat pieces without a shape: use torch.distributed.fsdp.fully_shard, or initialize"
            " before wrapping"
        )
    wrapped = next((_WRAPPERS[name] for name in classes if name in _WRAPPERS), None)
    if wrapped is not None:
        yield from _walk(getattr(module, wrapped), path)
        return
    yield path, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _walk(child, f"{path}.{name}" if path else name)


def _identity(tensor: torch.Tensor) -> object:
    """Equal for tensors that are the same elements of the same memory."""
    span = _span(tensor)
    if span is None:
        return id(tensor)
    local = local_tensor(tensor)
    return span, tuple(local.shape), local.stride(), local.dtype


def _span(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Storage, first and last byte of a tensor in it; None for a tensor without memory."""
    if nn.parameter.is_lazy(tensor):
        return None
    local = local_tensor(tensor)
    if dispatches(local) or local.is_meta:
        return None
    if local.layout is not torch.strided or local.numel() == 0:
        return None
    if local.untyped_storage().nbytes() == 0:  # freed
        return None
    steps = sum(step * (size - 1) for step, size in zip(local.stride(), local.shape, strict=True))
    first = local.storage_offset() * local.element_size()
    last = first + (steps + 1) * local.element_size()
    return local.untyped_storage().data_ptr(), first, last


def _check_overlaps(parameters: list[Held]) -> None:
    """Refuse two parameters that have elements in common, but not all of them."""
    spans = [(span, held) for held in parameters if (span := _span(held.tensor))]
    spans.sort(key=lambda pair: pair[0])
    for (one, held), (other, following) in pairwise(spans):
        dense = _is_dense(held.tensor) and _is_dense(following.tensor)
        if one[0] == other[0] and other[1] < one[2] and dense:
            raise InitializationError(
                "a module with overlapping parameters", twice=[held.name, following.name]
            )


def _is_dense(tensor: torch.Tensor) -> bool:
    """True for a tensor without memory between its elements, in whatever order: a transpose too."""
    span = _span(tensor)
    local = local_tensor(tensor)
    return span is not None and span[2] - span[1] == local.numel() * local.element_size()
