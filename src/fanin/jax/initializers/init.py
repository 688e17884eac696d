"""What JAX calls: `init(key, shape, dtype, out_sharding)`, and the checks of its makers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax

from fanin import arguments
from fanin.arguments import shape_tuple
from fanin.initializers import Initializer
from fanin.jax.sampling import float_dtype, sample

__all__ = ["Init", "nonnegative", "sampled", "shape_axis"]

Init: TypeAlias = Callable[..., Any]
"""`init(key, shape, dtype=None, out_sharding=None) -> jax.Array`."""


def sampled(
    choose: Callable[[tuple[int, ...]], Initializer],
    dtype: Any,
    layout: Callable[[tuple[int, ...]], str | None] = lambda shape: None,
) -> Init:
    """Return the function that JAX calls; `choose` and `layout` are functions of the shape."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        axes = shape_tuple(shape)
        return sample(choose(axes), key, axes, layout(axes), float_dtype(dtype), out_sharding)

    return init


def nonnegative(name: str, value: Any) -> float:
    """Return `value` as a finite float that is at least 0, and known now."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name} must be known while JAX traces, got {value}")
    return arguments.nonnegative(name, value)


def shape_axis(name: str, axis: int, shape: tuple[int, ...]) -> int:
    """Return `axis`, which may be negative, when a shape has it."""
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"{name} must be an axis of shape {shape}, got {axis}")
    return axis
