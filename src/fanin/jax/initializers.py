"""JAX's initializers, by their names, arguments and meaning, sampled by fanin.

A drop-in for `jax.nn.initializers` (`from fanin.jax import initializers`): each function returns
`init(key, shape, dtype, out_sharding)`. What is drawn is JAX's distribution and not JAX's values.
Their bits are those of the function of the same rule in `fanin`, with the seed that is in the key:
`he_normal()(jax.random.key(7), (300, 10))` equals
`fanin.he_normal((300, 10), layout="io", truncated=True, seed=7)`.

`zeros`, `ones` and `constant` are JAX's own: there is nothing to sample, and XLA fuses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jax.nn.initializers import constant, ones, zeros

from fanin.arguments import nonnegative, shape_tuple
from fanin.initializers import Constant, Initializer, Normal, TruncatedNormal, VarianceScaling
from fanin.initializers import Uniform as UniformValue
from fanin.initializers.scaling import DistributionName, Mode
from fanin.jax.sampling import float_dtype, sample

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Axes: TypeAlias = int | Sequence[int]
Init: TypeAlias = Callable[..., Any]
"""`init(key, shape, dtype=None, out_sharding=None) -> jax.Array`."""


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Init:
    """Uniform on [0, scale).

    Parameters
    ----------
    scale : float, default 0.01
    dtype : dtype, optional
        What the initializer makes if it is not told. Default: JAX's default float.

    Returns
    -------
    init : function of (key, shape, dtype, out_sharding)

    Raises
    ------
    ValueError, TypeError
        A scale that is no finite number of at least 0, or not known while JAX traces.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> weight = fanin.jax.uniform(4.0)(jax.random.key(0), (2, 3))
    >>> bool((weight >= 0).all() & (weight < 4).all())
    True
    """
    high = _nonnegative("scale", scale)
    value = UniformValue(0.0, high) if high > 0.0 else Constant(0.0)
    return _sampled(lambda shape: value, dtype)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Init:
    """Normal with mean 0.

    Parameters
    ----------
    stddev : float, default 0.01
    dtype : dtype, optional
        What the initializer makes if it is not told. Default: JAX's default float.

    Returns
    -------
    init : function of (key, shape, dtype, out_sharding)

    Raises
    ------
    ValueError, TypeError
        A stddev that is no finite number of at least 0, or not known while JAX traces.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> fanin.jax.normal(0.02)(jax.random.key(0), (2, 3), "bfloat16").dtype
    dtype(bfloat16)
    """
    value = Normal(0.0, _nonnegative("stddev", stddev))
    return _sampled(lambda shape: value, dtype)


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Init:
    """Normal with mean 0, cut at `lower` and `upper` standard deviations.

    Parameters
    ----------
    stddev : float, default 0.01
        Of the normal before it is cut: by default the result has 0.88 of it.
    dtype : dtype, optional
        What the initializer makes if it is not told. Default: JAX's default float.
    lower, upper : float, default -2 and 2
        In standard deviations; may be infinite.

    Returns
    -------
    init : function of (key, shape, dtype, out_sharding)

    Raises
    ------
    ValueError, TypeError
        A stddev that is not a finite number of at least 0, or a lower that is not below upper.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> weight = fanin.jax.truncated_normal(1.0, lower=0.0)(jax.random.key(0), (2, 3))
    >>> bool((weight >= 0).all() & (weight <= 2).all())
    True
    """
    value = TruncatedNormal(0.0, _nonnegative("stddev", stddev), lower, upper)
    return _sampled(lambda shape: value, dtype)


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
    value = VarianceScaling(_nonnegative("scale", scale), mode, distribution)
    axes = (_axes("in_axis", in_axis), _axes("out_axis", out_axis), _axes("batch_axis", batch_axis))

    def choose(shape: tuple[int, ...]) -> Initializer:
        if in_axis == -2 and len(shape) < 2:
            raise ValueError(
                f"shape {shape} has {len(shape)} axes, which does not say its fans: pass in_axis"
                " and out_axis"
            )
        return value.for_fans(*_fans(shape, *axes))

    return _sampled(choose, dtype)


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


def _sampled(
    choose: Callable[[tuple[int, ...]], Initializer],
    dtype: Any,
    layout: Callable[[tuple[int, ...]], str | None] = lambda shape: None,
) -> Init:
    """Return the function that JAX calls; `choose` gives the initializer of a shape."""

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        axes = shape_tuple(shape)
        return sample(choose(axes), key, axes, layout(axes), float_dtype(dtype), out_sharding)

    return init


def _nonnegative(name: str, value: Any) -> float:
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name} must be known while JAX traces, got {value}")
    return nonnegative(name, value)


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
    for axis in (*inputs, *outputs, *batch):
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"axis {axis} is not one of shape {shape}: see in_axis and out_axis")
    size = math.prod(shape)
    if size == 0:
        return 0.0, 0.0
    inputs_size, outputs_size, batch_size = (
        math.prod(shape[axis] for axis in axes) for axes in (inputs, outputs, batch)
    )
    return size / (outputs_size * batch_size), size / (inputs_size * batch_size)
