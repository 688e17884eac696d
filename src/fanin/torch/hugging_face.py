"""What transformers says of its models: their config, and what their `_init_weights` would do.

A model whose config a family knows is initialized as `fanin init` does. For all others the model's
own `_init_weights` is asked, and never obeyed: while it runs, every parameter is replaced by one
element that is expanded to its shape, every buffer by a copy, and the functions of
`transformers.initialization` and `torch.nn.init` write down what they are called with. So nothing
is drawn twice, loaded weights cannot be touched, and a sharded parameter looks whole. What writes
past these functions is found out (an expanded tensor refuses it, or its element changes) and makes
the parameter one without a rule. Code that is not part of transformers is not run.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from fanin import families
from fanin.gains import gain
from fanin.initializers import (
    Constant,
    Initializer,
    Normal,
    Uniform,
    VarianceScaling,
)
from fanin.initializers.table import TABLE, glorot_normal, glorot_uniform, he_normal, he_uniform
from fanin.model import Model
from fanin.rules import trunc_normal
from fanin.streams import position
from fanin.torch.inventory import Inventory

__all__ = ["Intentions", "family_model", "intentions", "is_of_transformers", "is_pretrained"]

UNTOUCHED = 0.625
"""Value of a stand-in for a parameter (0 in an integer one)."""

DONE = "_is_hf_initialized"
"""The attribute by which transformers marks modules, as it marks tensors it has loaded."""

_BY_POSITION = ("copy_", "eye_", "dirac_", "orthogonal_", "sparse_")
"""Functions whose elements are not interchangeable."""

_TORCH_MODULES = [
    "torch.nn.init",
    *(f"torch.nn.modules.{name}" for name in ("activation", "conv", "linear", "rnn")),
]
"""Where torch's own `reset_parameters` find the functions that fill."""


@dataclass
class Intentions:
    """What the modules of a model would do to their parameters and buffers."""

    initializers: dict[str, Initializer] = field(default_factory=dict)  # by parameter
    values: dict[str, torch.Tensor] = field(default_factory=dict)  # computed, by parameter
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)  # computed, by buffer
    unclear: set[str] = field(default_factory=set)  # parameters filled in a way unknown here
    drawn: set[str] = field(default_factory=set)  # parameters whose values torch's generator made


def family_model(root: nn.Module) -> Model | None:
    """Return the fanin model of a transformers model, or None if no family knows it."""
    names = [cls.__name__ for cls in type(root).__mro__ if _is_transformers(cls)]
    if not names or not is_pretrained(root):
        return None
    raw = root.config.to_dict()
    family = families.FAMILIES.get(str(raw.get("model_type")))
    if family is None or names[0] not in family.architectures:
        return None
    for key in ("dtype", "torch_dtype", "quantization_config"):
        raw.pop(key, None)
    model = families.build(raw | {"architectures": [names[0]]}, source=f"{names[0]}.config")
    return model.in_module()


def intentions(inventory: Inventory, paths: set[str], seed: int) -> Intentions:
    """Return what transformers would do to the modules at `paths`, children before parents.

    A value that `_init_weights` draws itself comes from torch's generator, seeded by the module's
    path for the time of the call.
    """
    owners = _owners(inventory)
    found = Intentions()
    if not any(path in owners for path in paths):
        return found
    with _recording(inventory, found), torch.no_grad(), torch.random.fork_rng(devices=[]):
        for path in _children_first(inventory.modules):
            if path not in owners or path not in paths:
                continue
            torch.default_generator.manual_seed(position(seed, f"{path}#values"))
            state, before = torch.get_rng_state(), dict(found.values)
            try:
                owners[path]._init_weights(inventory.modules[path])
            except RuntimeError:  # it wrote to a stand-in
                inside = (name for name in inventory.parameters if name.startswith(f"{path}."))
                found.unclear.update(inside)
            noted = {name for name, value in found.values.items() if before.get(name) is not value}
            if torch.equal(torch.get_rng_state(), state):
                found.drawn -= noted
            else:
                found.drawn |= noted
    return found


def _owners(inventory: Inventory) -> dict[str, Any]:
    """The model of transformers that each module belongs to, the innermost one."""
    owners: dict[str, Any] = {}
    for path, module in inventory.modules.items():
        if is_pretrained(module) and _is_transformers(type(module)._init_weights):
            owners[path] = module
        elif is_pretrained(module):  # its `_init_weights` is somebody else's
            continue
        else:
            parent = path
            while parent:
                parent = parent.rpartition(".")[0]
                if parent in inventory.modules:
                    break
            if path and parent in owners:
                owners[path] = owners[parent]
    return owners


def is_pretrained(module: nn.Module) -> bool:
    """True for a model of transformers, or one derived from it."""
    library = sys.modules.get("transformers.modeling_utils")
    return library is not None and isinstance(module, library.PreTrainedModel)


def is_of_transformers(module: nn.Module) -> bool:
    """True for a model whose class is one of transformers itself."""
    return is_pretrained(module) and _is_transformers(type(module))


def _is_transformers(thing: object) -> bool:
    """True for a class or a function that transformers wrote (FSDP2 derives classes from it)."""
    home = str(getattr(thing, "__module__", ""))
    return home.startswith("transformers.") and not home.startswith("transformers_modules")


def _children_first(modules: dict[str, nn.Module]) -> Iterator[str]:
    ancestors: list[str] = []
    for path in modules:
        while ancestors and not path.startswith(f"{ancestors[-1]}.") and ancestors[-1]:
            yield ancestors.pop()
        ancestors.append(path)
    yield from reversed(ancestors)


@contextmanager
def _recording(inventory: Inventory, found: Intentions) -> Iterator[None]:
    """Put stand-ins in the place of parameters and buffers, and note what is done to them."""
    from transformers import initialization

    bare: dict[str, torch.Tensor] = {}
    for held in inventory.parameters.values():
        # What is computed in a parameter's dtype is computed in float32, and rounded once.
        narrow = held.tensor.is_floating_point() and held.tensor.dtype != torch.float64
        dtype = torch.float32 if narrow else held.tensor.dtype
        element = torch.full((), UNTOUCHED, dtype=dtype, device="cpu")
        bare[held.name] = nn.Parameter(element.expand(held.tensor.shape), requires_grad=False)
        # A convolution that is not would fill a tensor of its own and copy it.
        bare[held.name].is_contiguous = lambda *_, **__: True
    copied: dict[str, torch.Tensor] = {}
    for held in inventory.buffers.values():
        copied[held.name] = held.tensor.detach().clone()
        copied[held.name].__dict__.update(held.tensor.__dict__)  # the mark of loaded ones
    names = {id(tensor): name for name, tensor in bare.items()}
    copies = {id(tensor): name for name, tensor in copied.items()}
    ours = threading.get_ident()

    def recorder(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def record(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != ours:
                return original(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            tensor, *_ = bound.arguments.values()
            if id(tensor) in names:
                _note(found, names[id(tensor)], name, tensor, bound.arguments)
            elif id(getattr(tensor, "_base", None)) in names:
                whole = tensor._base.numel() == tensor.numel() and name not in _BY_POSITION
                if whole:  # in another shape, which gives other fans
                    _note(found, names[id(tensor._base)], name, tensor, bound.arguments)
                elif name != "zeros_":  # of a padding row, which is a part of its own
                    found.unclear.add(names[id(tensor._base)])
            else:
                original(*args, **kwargs)
                if id(tensor) in copies and not getattr(tensor, "_is_hf_initialized", False):
                    found.buffers[copies[id(tensor)]] = tensor
            return tensor

        return record

    with ExitStack() as stack:
        for module in (initialization, *(sys.modules[name] for name in _TORCH_MODULES)):
            for name in (*initialization.TORCH_INIT_FUNCTIONS, "copy_"):
                if hasattr(module, name):
                    replacement = recorder(name, getattr(module, name))
                    stack.enter_context(patch.object(module, name, replacement))
        for path, owner in inventory.modules.items():
            for held_by, stand_ins in ((owner._parameters, bare), (owner._buffers, copied)):
                new = {
                    key: stand_ins[inventory.first_name(f"{path}.{key}" if path else key)]
                    for key, old in held_by.items()
                    if old is not None
                }
                stack.enter_context(patch.dict(held_by, new))
            # Some modules do nothing where a part of theirs is marked as done.
            mark = owner.__dict__.pop(DONE, None)
            stack.callback(_restore, owner, mark)
        yield
    for name, tensor in bare.items():
        if tensor.numel() > 0 and tensor.flatten()[0] != UNTOUCHED:
            found.unclear.add(name)


def _restore(module: nn.Module, mark: bool | None) -> None:
    module.__dict__.pop(DONE, None)
    if mark is not None:
        module.__dict__[DONE] = mark


def _note(
    found: Intentions, name: str, function: str, tensor: torch.Tensor, arguments: dict[str, Any]
) -> None:
    """Keep the last thing that is done to a parameter: a later call overwrites an earlier one."""
    found.initializers.pop(name, None)
    found.values.pop(name, None)
    found.unclear.discard(name)
    if function == "copy_":
        found.values[name] = arguments["other"].detach().clone()
        return
    if (initializer := _initializer(function, tuple(tensor.shape), arguments)) is not None:
        found.initializers[name] = initializer
        return
    found.unclear.add(name)


def _initializer(
    function: str, shape: tuple[int, ...], arguments: dict[str, Any]
) -> Initializer | None:
    """The value of a call of one of torch's functions; numbers from fans are those torch takes."""
    a = arguments
    if function == "uniform_":
        return Uniform(a["a"], a["b"])
    if function == "normal_":
        return Normal(a["mean"], a["std"])
    if function == "zeros_":
        return Constant(0.0)
    if function == "ones_":
        return Constant(1.0)
    if function == "constant_":
        return Constant(a["val"])
    if function == "trunc_normal_":
        return trunc_normal(a["std"], a["mean"], a["a"], a["b"])
    if function in _SCALED:
        factor = a["gain"] if "gain" in a else gain(a["nonlinearity"], _slope(a))
        options = {"mode": a["mode"]} if "mode" in a else {}
        return _SCALED[function](gain=factor, **options).resolve(shape)
    if function == "orthogonal_" and "orthogonal" in TABLE:
        return TABLE["orthogonal"](gain=a["gain"])
    return None  # a draw of torch's that has no initializer here


def _slope(arguments: dict[str, Any]) -> float | None:
    return arguments["a"] if arguments["nonlinearity"] == "leaky_relu" else None


_SCALED: dict[str, Callable[..., VarianceScaling]] = {
    "xavier_uniform_": glorot_uniform,
    "xavier_normal_": glorot_normal,
    "kaiming_uniform_": he_uniform,
    "kaiming_normal_": he_normal,
}
