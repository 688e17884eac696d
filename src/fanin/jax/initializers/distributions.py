"""Uniform and normal distributions with JAX's arguments: a scale or a standard deviation first."""

from __future__ import annotations

from typing import Any

from fanin.initializers import Constant, Normal, TruncatedNormal, Uniform
from fanin.jax.initializers.init import Init, nonnegative, sampled

__all__ = ["normal", "truncated_normal", "uniform"]


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
    high = nonnegative("scale", scale)
    value = Uniform(0.0, high) if high > 0.0 else Constant(0.0)
    return sampled(lambda shape: value, dtype)


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
    value = Normal(0.0, nonnegative("stddev", stddev))
    return sampled(lambda shape: value, dtype)


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
    value = TruncatedNormal(0.0, nonnegative("stddev", stddev), lower, upper)
    return sampled(lambda shape: value, dtype)
