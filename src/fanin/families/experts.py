"""Mixtures of experts: a gated MLP for each expert, and the router that chooses among them.

Each of an expert's matrices is a matrix by itself, with its own fans and its own random stream.
Most files hold each as a tensor, and transformers' module stacks them: one tensor (experts, gate
and then up, inputs), one (experts, outputs, inner). Files of GPT-OSS hold stacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fanin.families.fields import Config
from fanin.families.layers import linear, part
from fanin.initializers import Normal
from fanin.model import Part, Slot, Tensor
from fanin.rules import Rules, normal_weights

__all__ = ["auto", "expert_stack", "experts", "router"]


def router(at: str, count: int, width: int, *, dtype: str | None = None) -> Iterator[Tensor]:
    """Yield the layer that scores `count` experts, without a bias; `dtype` is its own one."""
    for tensor in linear(at, count, width, "router", bias=False):
        yield replace(tensor, dtype=dtype)


def experts(
    at: str,
    count: int,
    inner: int,
    width: int,
    *,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    module: str | None = None,
) -> Iterator[Tensor]:
    """Yield the tensors of `count` experts, one after another, each with its slot in the module.

    Parameters
    ----------
    at : str
        What goes before an expert's number in files: `model.layers.0.mlp.experts.`.
    count, inner, width : int
        Number of experts, width between their matrices, width of what they read and write.
    names : tuple of str
        Of gate, up and down.
    module : str, optional
        What goes before the stacks' names in transformers' module. Default: as `at`.
    """
    gate, up, down = names
    module = at if module is None else module
    gate_up, stack = f"{module}gate_up_proj", (count, 2 * inner, width)
    for expert in range(count):
        matrices = (
            (gate, "mlp.gate", (inner, width), Slot(gate_up, stack, (expert, 0, 0))),
            (up, "mlp.in", (inner, width), Slot(gate_up, stack, (expert, inner, 0))),
            (
                down,
                "mlp.out",
                (width, inner),
                Slot(f"{module}down_proj", (count, width, inner), (expert, 0, 0)),
            ),
        )
        for label, role, shape, slot in matrices:
            name = f"{at}{expert}.{label}"
            for tensor in linear(name, *shape, role, bias=False):
                yield replace(tensor, slot=slot)


def expert_stack(
    name: str,
    shape: tuple[int, ...],
    roles: tuple[str, ...],
    layout: str | None,
    *,
    outputs: int,
    interleaved: bool = False,
    fan_in: int | None = None,
) -> Tensor:
    """Return a tensor that stacks one matrix, or gate and up, of every expert, or their biases.

    Parameters
    ----------
    name : str
        Its parts are `name#<expert>`, or `name#<expert>.gate` and `name#<expert>.up`.
    shape : tuple of int
        Experts first.
    roles : tuple of str
        One, or those of gate and up.
    layout : str or None
        Such as `"boi"`; None for biases.
    outputs : int
        The axis that gate and up share.
    interleaved : bool, default False
        Gate and up alternate along it; else the gate comes first.
    fan_in : int, optional
        Of the matrices that biases belong to.
    """
    halves, axes = len(roles), range(len(shape))
    size = shape[outputs] // halves
    matrix = (1, *(size if axis == outputs else shape[axis] for axis in axes[1:]))
    step = tuple(halves if interleaved and axis == outputs else 1 for axis in axes)
    parts: list[Part] = []
    for expert in range(shape[0]):
        for half, role in enumerate(roles):
            label = f"{expert}" if halves == 1 else f"{expert}.{('gate', 'up')[half]}"
            first = half if interleaved else half * size
            corner = (expert, *(first if axis == outputs else 0 for axis in axes[1:]))
            parts.append(
                part(f"{name}#{label}", role, matrix, layout, at=corner, step=step, fan_in=fan_in)
            )
    return Tensor.of(name, shape, tuple(parts))


def auto(c: Config) -> Rules:
    """`_init_weights` of models with experts: N(0, initializer_range^2).

    `PreTrainedModel._init_weights` takes a range of 0 for 0.02; routers and the stacks of experts
    (not what all tokens share) have it as it is.
    """
    own, usual = Normal(std=c.initializer_range), Normal(std=c.initializer_range or 0.02)
    return {
        **normal_weights(usual.std),
        "mlp": lambda part: own if ".experts." in part.name else usual,
        "router": own,
        "router.shared": usual,
    }
