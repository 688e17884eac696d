"""JAX's initializers, by their names, arguments and meaning, sampled by fanin.

A drop-in for `jax.nn.initializers` (`from fanin.jax import initializers`): each function returns
`init(key, shape, dtype, out_sharding)`. What is drawn is JAX's distribution and not JAX's values.
Their bits are those of the function of the same rule in `fanin`, with the seed that is in the key:
`he_normal()(jax.random.key(7), (300, 10))` equals
`fanin.he_normal((300, 10), layout="io", truncated=True, seed=7)`.

`zeros`, `ones` and `constant` are JAX's own: there is nothing to sample, and XLA fuses them.
"""

from __future__ import annotations

from jax.nn.initializers import constant, ones, zeros

from fanin.jax.initializers.distributions import normal, truncated_normal, uniform
from fanin.jax.initializers.orthogonal import delta_orthogonal, orthogonal
from fanin.jax.initializers.scaling import (
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    variance_scaling,
    xavier_normal,
    xavier_uniform,
)

__all__ = [
    "constant",
    "delta_orthogonal",
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
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
