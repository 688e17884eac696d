"""Variance scaling with JAX's arguments: the axes of inputs, outputs and batch, fans as JAX's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from fanin.initializers import Initializer, VarianceScaling
from fanin.initializers.scaling import DistributionName, Mode
from fanin.jax.initializers.init import Init, nonnegative, sampled, shape_axis

__all__ = [
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
]

Axes: TypeAlias = int | Sequence[int]


def variance_scaling(
    scale: Any,
    mode: Mode,
    distribution: DistributionName,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Init:
    """Mean 0 and variance `scale / fan`.

    Parameters
    ----------
    scale : float
        At least 0.
    mode : {"fan_in", "fan_out", "fan_avg", "fan_geo_avg"}
    distribution : {"truncated_normal", "normal", "uniform"}
        Truncated at 2 standard deviations of its parent, with the variance kept.
    in_axis, out_axis, batch_axis : int or sequence of int
        The axes of inputs, of outputs and of independent matrices; all others are the kernel's.
        An axis that is both input and output counts as JAX counts it: Flax's embeddings, with
        `out_axis=0`, have the fan of their other axis.
    dtype : dtype, optional
        What the initializer makes if it is not told. Default: JAX's default float.

    Returns
    -------
    init : function of (key, shape, dtype, out_sharding)

    Raises
    ------
    ValueError, TypeError
        An unknown mode or distribution, a negative scale; when called, an axis that the shape does
        not have, or a shape of fewer than two axes without an `in_axis`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> init = fanin.jax.variance_scaling(1.0, "fan_in", "normal", in_axis=(0, 1))
    >>> init(jax.random.key(0), (4, 8, 16)).shape  # heads, head_dim, features: fan_in 32
    (4, 8, 16)
    """
    value = VarianceScaling(nonnegative("scale", scale), mode, distribution)
    axes = (_axes("in_axis", in_axis), _axes("out_axis", out_axis), _axes("batch_axis", batch_axis))

    def choose(shape: tuple[int, ...]) -> Initializer:
        if in_axis == -2 and len(shape) < 2:
            raise ValueError(
                f"shape {shape} has {len(shape)} axes, which does not say its fans: pass in_axis"
                " and out_axis"
            )
        return value.for_fans(*_fans(shape, *axes))

    return sampled(choose, dtype)


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Init:
    """Uniform with variance `2 / (fan_in + fan_out)` (Glorot and Bengio 2010, eq. 16).

    Parameters, results and errors are those of `variance_scaling`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.glorot_uniform()(jax.random.key(0), (300, 10)).shape
    (300, 10)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Init:
    """Truncated normal with variance `2 / (fan_in + fan_out)` (Glorot and Bengio 2010, eq. 12).

    Parameters, results and errors are those of `variance_scaling`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.glorot_normal()(jax.random.key(0), (300, 10)).shape
    (300, 10)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Init:
    """Uniform with variance `2 / fan_in` (He et al. 2015, eq. 10).

    Parameters, results and errors are those of `variance_scaling`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.he_uniform()(jax.random.key(0), (3, 3, 16, 32)).shape
    (3, 3, 16, 32)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Init:
    """Truncated normal with variance `2 / fan_in` (He et al. 2015, eq. 10).

    Parameters, results and errors are those of `variance_scaling`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.he_normal()(jax.random.key(0), (3, 3, 16, 32)).shape
    (3, 3, 16, 32)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Init:
    """Uniform with variance `1 / fan_in` (LeCun et al. 1998, eq. 16).

    Parameters, results and errors are those of `variance_scaling`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.lecun_uniform()(jax.random.key(0), (300, 10)).shape
    (300, 10)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Init:
    """Truncated normal with variance `1 / fan_in` (LeCun et al. 1998, eq. 16): Flax's kernels.

    Parameters, results and errors are those of `variance_scaling`.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.lecun_normal()(jax.random.key(0), (300, 10)).shape
    (300, 10)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


def _axes(name: str, given: Axes) -> tuple[int, ...]:
    axes = (given,) if hasattr(given, "__index__") else tuple(given)
    if not all(hasattr(axis, "__index__") for axis in axes):
        raise TypeError(f"{name} must be an axis or a sequence of axes, got {given!r}")
    return tuple(int(axis) for axis in axes)


def _fans(
    shape: tuple[int, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    batch: tuple[int, ...],
) -> tuple[float, float]:
    """Fans as JAX counts them: all axes but those of the outputs (inputs) and of the batch."""
    for name, axes in {"in_axis": inputs, "out_axis": outputs, "batch_axis": batch}.items():
        for axis in axes:
            shape_axis(name, axis, shape)
    size = math.prod(shape)
    if size == 0:
        return 0.0, 0.0
    inputs_size, outputs_size, batch_size = (
        math.prod(shape[axis] for axis in axes) for axes in (inputs, outputs, batch)
    )
    return size / (outputs_size * batch_size), size / (inputs_size * batch_size)
