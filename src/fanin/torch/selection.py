"""Which tensors of a module `initialize_` leaves alone, and whether it can fill the others."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import torch
from torch import nn

from fanin.output import ITEMSIZE, view
from fanin.torch.inventory import Held, Inventory, local_tensor
from fanin.torch.sampling import dispatches
from fanin.torch.sharding import local_boxes

__all__ = ["check_overrides", "check_tensors", "kept_tensors"]

LOADED = "_is_hf_initialized"
"""The attribute by which transformers marks a tensor that it has loaded from a checkpoint."""

Patterns = str | Iterable[str] | None


def kept_tensors(inventory: Inventory, only: Patterns, skip: Patterns) -> dict[str, str]:
    """Return the tensors that stay as they are, each with the reason.

    Raises
    ------
    ValueError
        A pattern matches no name.
    """
    every = {**inventory.parameters, **inventory.buffers}
    wanted = None if only is None else _matching("only", only, every)
    unwanted = set() if skip is None else _matching("skip", skip, every)
    kept = {}
    for name, held in every.items():
        if getattr(held.tensor, LOADED, False):
            kept[name] = "loaded"
        elif name in unwanted:
            kept[name] = "skip"
        elif wanted is not None and name not in wanted:
            kept[name] = "not in only"
    return kept


def check_tensors(parameters: Iterable[Held], buffers: Iterable[Held]) -> None:
    """Raise ValueError, naming it, if a parameter cannot be filled or a buffer has no memory."""
    parameters = list(parameters)
    bare = [held.name for held in (*parameters, *buffers) if held.tensor.is_meta]
    if bare:
        raise ValueError(
            f"{len(bare)} tensors are on the meta device, without memory ({', '.join(bare[:3])}"
            f"{' ...' if len(bare) > 3 else ''}): call module.to_empty(device='cpu') first"
        )
    for held in parameters:
        if problem := _problem(held.tensor):
            raise ValueError(f"{held.name} {problem}")


def check_overrides(patterns: Iterable[object], inventory: Inventory, kept: dict[str, str]) -> None:
    """Raise ValueError for a pattern that matches only parameters that stay as they are."""
    for pattern in patterns:
        found = [n for n in inventory.parameters if fnmatchcase(n, str(pattern))]
        if found and all(name in kept for name in found):
            raise ValueError(
                f"override {pattern!r} matches only what is not touched: {found[0]} is kept"
                f" ({kept[found[0]]})"
            )


def _problem(tensor: torch.Tensor) -> str:
    if nn.parameter.is_lazy(tensor):
        return "has no shape yet: its layer is lazy, run the module once first"
    if dispatches(local_tensor(tensor)):
        kind = type(local_tensor(tensor)).__name__
        return f"is a {kind}, not plain memory: initialize it before, or leave it out with skip="
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in ITEMSIZE:
        return f"has the dtype {name}; allowed: {', '.join(ITEMSIZE)}. Leave it out with skip="
    if tensor.numel() == 0 and hasattr(tensor, "ds_shape"):
        shape = tuple(tensor.ds_shape)
        return f"is an empty placeholder of DeepSpeed for the shape {shape}: gather it first"
    if tensor.is_inference():
        return "was made in inference mode and cannot be changed outside of it: clone() it"
    try:
        local_boxes(tensor)
        view(local_tensor(tensor))
    except ValueError as error:
        return f"cannot be filled: {error}"
    return ""


def _matching(argument: str, patterns: str | Iterable[str], every: dict[str, Held]) -> set[str]:
    matched: set[str] = set()
    if not isinstance(patterns, Iterable):
        raise TypeError(f"{argument} must be a pattern or patterns, as strings, got {patterns!r}")
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"{argument} must be patterns, as strings, got {pattern!r}")
        found = {
            name
            for name, held in every.items()
            if any(fnmatchcase(one, pattern) for one in (name, *held.aliases))
        }
        if not found:
            raise ValueError(f"{argument}={pattern!r} matches no parameter and no buffer")
        matched |= found
    return matched
