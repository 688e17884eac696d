"""What the constructors of a model of transformers put into its parameters and buffers.

Some values are in no `_init_weights`: `nn.Parameter(torch.tensor(2.65))`, a scale of 1e-5 for every
channel, an index table. A module on the meta device has lost them, and so has one after `to_empty`.
So the model is built once more on that device, and each small result of a function of torch whose
arguments are known is computed on the CPU beside it. It belongs to the storage, as a parameter
shares the one of the tensor it is made of. What is drawn, or left empty, is not known.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device
from torch.utils._pytree import tree_flatten, tree_map

from fanin.initializers import Initializer, Normal, Uniform
from fanin.torch.inventory import take_inventory

__all__ = ["constructed_values"]

MAX_ELEMENTS = 2**20
"""Of a tensor whose values are followed."""

_DRAWN = (
    *("rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "cauchy"),
    *("geometric", "poisson", "dropout", "log_normal"),
)
_EMPTY = ("empty", "new_empty", "empty_like", "empty_strided", "set_")


def constructed_values(model: Any) -> tuple[dict[str, torch.Tensor], dict[str, Initializer]]:
    """Return the values that are known once a model is built, by parameter and buffer.

    And, by name, what was drawn in one call, or is that times a number: `0.02 * torch.randn(3)`.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Its class and its config count; nothing is read from it, and nothing written.
    """
    # The function mode is asked first, and the device underneath it moves what it makes.
    with torch.device("meta"), _Following() as following, torch.random.fork_rng(devices=[]):
        twin = type(model)._from_config(copy.deepcopy(model.config), dtype=torch.float32)
    inventory = take_inventory(twin)
    found: dict[str, torch.Tensor] = {}
    drawn: dict[str, Initializer] = {}
    for held in (*inventory.parameters.values(), *inventory.buffers.values()):
        values = following.values(held.tensor)
        if values is not None and not (values.is_floating_point() and values.isnan().any()):
            found[held.name] = values.clone()
        elif (initializer := following.drawn.get(_storage(held.tensor))) is not None:
            drawn[held.name] = initializer
    return found, drawn


class _Following(TorchFunctionMode):  # type: ignore[misc]
    """Keeps, for storages of the meta device, one on the CPU that holds their values."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[int, Initializer] = {}  # by storage
        self._known: dict[int, torch.Tensor] = {}  # storage -> its elements in a row
        self._alive: list[object] = []  # a freed storage's address may become another's

    def values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the known values of a tensor, as a view of them."""
        if not tensor.is_meta:
            return tensor.detach()
        row = self._known.get(_storage(tensor))
        if row is None or row.dtype != tensor.dtype:
            return None
        return row.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__setitem__":
            result = args[0]
        if name == "__get__" or not isinstance(result, torch.Tensor) or not result.is_meta:
            return result
        self._note_drawn(name, args, result)
        shadow = self._computed(func, name, args, kwargs, result)
        if shadow is None or shadow.shape != result.shape or shadow.dtype != result.dtype:
            if _is_in_place(name):
                self._known.pop(_storage(result), None)
            return None if name == "__setitem__" else result
        if self.values(result) is None:
            size = result.untyped_storage().nbytes() // result.itemsize
            row = torch.zeros(size, dtype=result.dtype, device="cpu")
            if result.is_floating_point():
                row.fill_(torch.nan)
            self._known[_storage(result)] = row
            self._alive.append(result.untyped_storage())
        own = self.values(result)
        if own is not None and own.data_ptr() != shadow.data_ptr():
            own.copy_(shadow)
        return None if name == "__setitem__" else result

    def _note_drawn(self, name: str, args: tuple[Any, ...], result: torch.Tensor) -> None:
        storage = _storage(result)
        if _is_in_place(name):
            self.drawn.pop(storage, None)
            return
        scale, start = 1.0, _DISTRIBUTIONS.get(name)
        if name in ("mul", "__mul__", "__rmul__") and len(args) == 2:
            factors = [each for each in args if isinstance(each, int | float)]
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            if len(factors) == len(tensors) == 1:
                scale, start = float(factors[0]), self.drawn.get(_storage(tensors[0]))
        if isinstance(start, Normal) and start.mean == 0:
            self.drawn[storage] = Normal(std=abs(scale) * start.std)
            self._alive.append(result.untyped_storage())
        elif isinstance(start, Uniform) and scale > 0:
            self.drawn[storage] = Uniform(scale * start.low, scale * start.high)
            self._alive.append(result.untyped_storage())

    def _computed(
        self, func: Any, name: str, args: Any, kwargs: dict[str, Any], result: torch.Tensor
    ) -> torch.Tensor | None:
        """Compute a call on the CPU; None if it cannot be, or must not."""
        if result.numel() > MAX_ELEMENTS or name.startswith(_EMPTY) or name.startswith(_DRAWN):
            return None
        flat = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
        overwrites = name in ("fill_", "zero_", "copy_")
        known = {id(each): self.values(each) for each in flat}
        if overwrites and known[id(flat[0])] is None:
            known[id(flat[0])] = torch.empty(flat[0].shape, dtype=flat[0].dtype, device="cpu")
        if any(value is None for value in known.values()):
            return None

        def on_cpu(each: Any) -> Any:
            if isinstance(each, torch.Tensor):
                return known[id(each)]
            return torch.device("cpu") if isinstance(each, torch.device) else each

        args, kwargs = tree_map(on_cpu, (args, kwargs))
        if func in _device._device_constructors() or "device" in kwargs:
            kwargs["device"] = "cpu"
        try:
            with torch.no_grad():
                computed = func(*args, **kwargs)
        except Exception:  # a function of one device only: its result is not known
            return None
        if name == "__setitem__":
            return known[id(flat[0])]
        return computed if isinstance(computed, torch.Tensor) else None


_DISTRIBUTIONS: dict[str, Initializer] = {"randn": Normal(std=1.0), "rand": Uniform(0.0, 1.0)}


def _is_in_place(name: str) -> bool:
    return (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
