"""The parameters of torch's layers as tensors with roles, and what torch itself starts them from.

A layer is known by its type, never by its place or name. It says what its parameters are (which
axes are inputs, which part is which gate, which row is padding), and that is enough for any scheme;
beside each tensor stands the initializer of torch's own `reset_parameters`, which is `auto`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from torch import nn

from fanin.families.experts import expert_stack
from fanin.families.layers import part, table
from fanin.initializers import Constant, Initializer, Normal, TorchLinear, Uniform
from fanin.layouts import resolve_layout
from fanin.model import UNKNOWN, Tensor

__all__ = ["Described", "describe", "unknown_parameter"]

Described = tuple[Tensor, Initializer | None]
"""A tensor, and what torch initializes it with (padding rows apart); None if it does not."""

ZERO, ONE = Constant(0.0), Constant(1.0)


def describe(at: str, module: nn.Module) -> Iterator[Described]:
    """Yield the parameters that a layer holds itself; nothing for a type that is not known.

    Parameters
    ----------
    at : str
        What goes before the parameters' own names: the layer's path and a dot.
    """
    for cls in type(module).__mro__:
        if cls in _AXES and getattr(module.weight, "ndim", 0) not in _AXES[cls]:
            return  # something else holds the weight, or packs it in its own way
        if cls in _LAYERS:
            yield from _LAYERS[cls](at, module)
            return
    for pattern, layer in _LAYERS_BY_NAME.items():
        if re.search(pattern, type(module).__name__):
            yield from layer(at, module)
            return


def unknown_parameter(name: str, shape: tuple[int, ...]) -> Tensor:
    """Return a parameter that only an override can initialize, with the axes torch would assume."""
    layout = resolve_layout(shape, None) if len(shape) > 1 else None
    return Tensor.of(name, shape, (part(name, UNKNOWN, shape, layout),))


def _linear(at: str, module: Any) -> Iterator[Described]:
    fan_in = module.weight.shape[1]
    yield _whole(f"{at}weight", module.weight, "dense", TorchLinear(), "oi")
    yield from _bias(at, module, _symmetric(fan_in), fan_in)


def _attention_out(at: str, module: Any) -> Iterator[Described]:
    """The output layer of `nn.MultiheadAttention`, a type of its own; its bias starts from zero."""
    yield _whole(f"{at}weight", module.weight, "attention.out", TorchLinear(), "oi")
    yield from _bias(at, module, ZERO, module.weight.shape[1])


def _conv1d(at: str, module: Any) -> Iterator[Described]:
    """`Conv1D` of transformers: a dense layer stored (in, out), from N(0, 0.02^2)."""
    yield _whole(f"{at}weight", module.weight, "dense", Normal(std=0.02), "io")
    yield from _bias(at, module, ZERO, module.weight.shape[0])


def _bilinear(at: str, module: Any) -> Iterator[Described]:
    _, first, second = module.weight.shape
    start = _symmetric(first)
    yield _whole(f"{at}weight", module.weight, "dense", start, "oii")
    yield from _bias(at, module, start, first * second)


def _convolution(at: str, module: Any) -> Iterator[Described]:
    """Convolutions. torch takes the second axis for the inputs, also where they are transposed."""
    shape = module.weight.shape
    kernel, inputs = shape[2:], shape[0] // module.groups if module.transposed else shape[1]
    layout = ("io" if module.transposed else "oi") + "k" * len(kernel)
    start = _symmetric(math.prod(shape[1:]))
    yield _whole(f"{at}weight", module.weight, "conv", start, layout, groups=module.groups)
    yield from _bias(at, module, start, inputs * math.prod(kernel))


def _embedding(at: str, module: Any) -> Iterator[Described]:
    rows, columns = module.weight.shape
    tensor = table(f"{at}weight", rows, columns, "embedding", padding=module.padding_idx)
    yield tensor, Normal(std=1.0)


def _norm(at: str, module: Any) -> Iterator[Described]:
    if getattr(module, "weight", None) is not None:
        offset = _is_offset_norm(type(module))  # type: ignore[arg-type]
        role, start = ("norm.scale.offset", ZERO) if offset else ("norm.scale", ONE)
        yield _whole(f"{at}weight", module.weight, role, start)
    if getattr(module, "bias", None) is not None:
        yield _whole(f"{at}bias", module.bias, "norm.bias", ZERO)


def _prelu(at: str, module: Any) -> Iterator[Described]:
    yield _whole(f"{at}weight", module.weight, "activation.slope", Constant(module.init))


def _attention(at: str, module: Any) -> Iterator[Described]:
    """`nn.MultiheadAttention`, whose fused matrix (3 d, d) torch draws as if it were one."""
    width, roles = module.embed_dim, ("attention.query", "attention.key", "attention.value")
    if module.in_proj_weight is not None:
        start = _glorot(module.in_proj_weight)
        yield _stacked(f"{at}in_proj_weight", module.in_proj_weight, roles, start)
    else:
        for role, weight in zip(roles, ("q", "k", "v"), strict=True):
            matrix = getattr(module, f"{weight}_proj_weight")
            yield _whole(f"{at}{weight}_proj_weight", matrix, role, _glorot(matrix), "oi")
    if module.in_proj_bias is not None:
        roles = ("bias.query", "bias.key", "bias.value")
        yield _stacked(f"{at}in_proj_bias", module.in_proj_bias, roles, ZERO, width)
    for name in ("bias_k", "bias_v"):
        if getattr(module, name) is not None:
            start = Normal(std=1.0 / math.sqrt(width))
            yield _whole(f"{at}{name}", getattr(module, name), "bias", start)


def _recurrent(at: str, module: Any) -> Iterator[Described]:
    """RNN, LSTM, GRU and their cells: a matrix a gate, and U(+-1/sqrt(hidden_size)) for all."""
    start = _symmetric(module.hidden_size)
    gates = next(gates for kind, gates in _GATES.items() if isinstance(module, kind))
    for name, parameter in module._parameters.items():
        if parameter is None:
            continue
        kind, source = name.split("_")[:2]  # weight_ih_l0, bias_hh_l0_reverse, weight_hr_l0
        if source == "hr":
            yield _whole(f"{at}{name}", parameter, "recurrent.projection", start, "oi")
            continue
        role = "bias" if kind == "bias" else "recurrent." + _SOURCES[source]
        fan_in = getattr(module, name.replace("bias", "weight")).shape[1]
        roles = [f"{role}.{gate}" for gate in gates] or [role]
        yield _stacked(f"{at}{name}", parameter, roles, start, fan_in)


def _experts(at: str, module: Any) -> Iterator[Described]:
    """Experts as transformers stacks them: each is a matrix of its own, and so is its gate."""
    transposed = getattr(module, "is_transposed", False)
    layout, inputs, outputs = ("bio", 1, 2) if transposed else ("boi", 2, 1)
    interleaved = not getattr(module, "is_concatenated", True)
    for name, roles in _EXPERT_ROLES.items():
        weight, bias = (module._parameters.get(f"{name}{end}") for end in ("", "_bias"))
        if weight is None or weight.ndim != 3:
            continue
        fan_in = weight.shape[inputs]
        stack = partial(expert_stack, interleaved=interleaved)
        shape = tuple(weight.shape)
        yield stack(f"{at}{name}", shape, roles, layout, outputs=outputs), None
        if bias is not None:
            shape, biases = tuple(bias.shape), tuple("bias" for _ in roles)
            tensor = stack(f"{at}{name}_bias", shape, biases, None, outputs=1, fan_in=fan_in)
            yield tensor, None


def _bias(at: str, module: Any, start: Initializer, fan_in: int) -> Iterator[Described]:
    if module.bias is not None:
        yield _whole(f"{at}bias", module.bias, "bias", start, fan_in=fan_in)


def _whole(
    name: str,
    parameter: nn.Parameter,
    role: str,
    start: Initializer,
    layout: str | None = None,
    *,
    fan_in: int | None = None,
    groups: int = 1,
) -> Described:
    """A parameter that is one matrix, or one vector."""
    shape = tuple(parameter.shape)
    return (
        Tensor.of(name, shape, (part(name, role, shape, layout, fan_in=fan_in, groups=groups),)),
        start,
    )


def _stacked(
    name: str,
    parameter: nn.Parameter,
    roles: list[str] | tuple[str, ...],
    start: Initializer,
    fan_in: int | None = None,
) -> Described:
    """Matrices of one size, or their biases, one after another; the last word is their name."""
    shape = tuple(parameter.shape)
    one = (shape[0] // len(roles), *shape[1:])
    parts = tuple(
        part(
            name if len(roles) == 1 else f"{name}#{role.rpartition('.')[2]}",
            role,
            one,
            "oi" if len(shape) == 2 else None,
            at=(number * one[0], *(0 for _ in shape[1:])),
            fan_in=fan_in,
        )
        for number, role in enumerate(roles)
    )
    return Tensor.of(name, shape, parts), start


def _symmetric(fan_in: int) -> Initializer:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    if fan_in == 0:
        return ZERO
    limit = 1.0 / math.sqrt(fan_in)
    return Uniform(-limit, limit)


def _glorot(matrix: nn.Parameter) -> Initializer:
    limit = math.sqrt(6.0 / sum(matrix.shape))
    return Uniform(-limit, limit)


@lru_cache(maxsize=256)
def _is_offset_norm(cls: type) -> bool:
    """True for a norm that multiplies by 1 + weight, as Gemma's: its code says so."""
    if cls.__module__.startswith("torch.nn."):
        return False
    try:
        code = inspect.getsource(cls)
    except (OSError, TypeError):
        return False
    return (
        re.search(r"\b1(\.0?)?\s*\+\s*self\.weight|self\.weight[\w.()]*\s*\+\s*1\b", code)
        is not None
    )


_SOURCES = {"ih": "input", "hh": "hidden"}

_GATES: dict[Any, tuple[str, ...]] = {
    (nn.LSTM, nn.LSTMCell): ("input", "forget", "cell", "output"),
    (nn.GRU, nn.GRUCell): ("reset", "update", "new"),
    (nn.RNNBase, nn.RNNCellBase): (),
}
"""The gates, in the order in which torch stacks them."""

_EXPERT_ROLES = {
    "gate_up_proj": ("mlp.gate", "mlp.in"),
    "up_proj": ("mlp.in",),
    "down_proj": ("mlp.out",),
}

_LAYERS: dict[type, Callable[[str, Any], Iterator[Described]]] = {
    nn.Linear: _linear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: _attention_out,
    nn.Bilinear: _bilinear,
    nn.modules.conv._ConvNd: _convolution,
    nn.Embedding: _embedding,
    nn.EmbeddingBag: _embedding,
    nn.LayerNorm: _norm,
    nn.GroupNorm: _norm,
    nn.RMSNorm: _norm,
    nn.modules.batchnorm._NormBase: _norm,
    nn.PReLU: _prelu,
    nn.MultiheadAttention: _attention,
    nn.RNNBase: _recurrent,
    nn.RNNCellBase: _recurrent,
}
"""torch's layers; a subclass is what its nearest known base is."""

_AXES: dict[type, tuple[int, ...]] = {
    nn.Linear: (2,),
    nn.Bilinear: (3,),
    nn.modules.conv._ConvNd: (3, 4, 5),
    nn.Embedding: (2,),
    nn.EmbeddingBag: (2,),
}
"""How many axes the weight of such a layer has."""

_LAYERS_BY_NAME: dict[str, Callable[[str, Any], Iterator[Described]]] = {
    "^Conv1D$": _conv1d,
    "LayerNorm|RMSNorm": _norm,
    "Experts$": _experts,
}
"""Layers that libraries write for themselves, by their class's name."""
