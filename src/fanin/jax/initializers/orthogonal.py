"""Orthogonal matrices with JAX's arguments: a scale, and the axis of the columns."""

from __future__ import annotations

from typing import Any

from fanin.initializers import DeltaOrthogonal, Orthogonal
from fanin.jax.initializers.init import Init, nonnegative, sampled, shape_axis

__all__ = ["delta_orthogonal", "orthogonal"]


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Init:
    """Orthonormal rows, or columns where there are more rows, times a scale: Saxe et al. (2014).

    Parameters
    ----------
    scale : float, default 1
        At least 0.
    column_axis : int, default -1
        The axis that counts columns; all others count rows.
    dtype : dtype, optional
        What the initializer makes if it is not told. Default: JAX's default float.

    Returns
    -------
    init : function of (key, shape, dtype, out_sharding)

    Raises
    ------
    ValueError, TypeError
        A scale that is no finite number of at least 0; when called, a shape of fewer than two
        axes, or without the column axis.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> weight = fanin.jax.orthogonal()(jax.random.key(0), (300, 10))
    >>> abs(weight.T @ weight - jax.numpy.eye(10)).max() < 1e-5
    Array(True, dtype=bool)
    """
    value = Orthogonal(nonnegative("scale", scale))

    def layout(shape: tuple[int, ...]) -> str:
        if len(shape) < 2:
            raise ValueError(f"orthogonal needs a shape of at least two axes, got {shape}")
        column = range(len(shape))[shape_axis("column_axis", column_axis, shape)]
        return "".join("o" if axis == column else "i" for axis in range(len(shape)))

    return sampled(lambda shape: value, dtype, layout)


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Init:
    """A convolution of zeros but for an orthogonal matrix in its middle: Xiao et al. (2018).

    Parameters
    ----------
    scale : float, default 1
        At least 0.
    column_axis : int, default -1
        Of the matrix in the middle. Its law is the same for either.
    dtype : dtype, optional
        What the initializer makes if it is not told. Default: JAX's default float.

    Returns
    -------
    init : function of (key, shape, dtype, out_sharding)

    Raises
    ------
    ValueError, TypeError
        A scale that is no finite number of at least 0; when called, a shape (kernel ..., inputs,
        outputs) without 3 to 5 axes, or with more inputs than outputs.

    Examples
    --------
    >>> import fanin.jax, jax
    >>> kernel = fanin.jax.delta_orthogonal()(jax.random.key(0), (3, 3, 4, 8))
    >>> int((kernel != 0).sum())
    32
    """
    value = DeltaOrthogonal(nonnegative("scale", scale))

    def layout(shape: tuple[int, ...]) -> str:
        if not 3 <= len(shape) <= 5:
            raise ValueError(f"delta_orthogonal needs a shape of 3 to 5 axes, got {shape}")
        shape_axis("column_axis", column_axis, shape[-2:])
        return "k" * (len(shape) - 2) + "io"

    return sampled(lambda shape: value, dtype, layout)
