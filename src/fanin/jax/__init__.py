"""fanin for JAX and Flax: initializers by JAX's names, and whole trees of sharded parameters.

`fanin.jax.he_normal()` and the others take the place of those in `jax.nn.initializers`: the same
arguments, the same meaning (the `*_normal` truncate, `uniform(scale)` is on [0, scale)), the same
calls, in and outside of `jit`. `initialize` fills a tree that `jax.eval_shape` described, for each
device the region that it holds.

The one import of JAX that may fail is here, so that the message says what to install.
"""

from __future__ import annotations

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError(f'fanin.jax needs JAX ({error}): pip install "fanin[jax]"') from error

from fanin.jax.initializers import (
    constant,
    delta_orthogonal,
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    normal,
    ones,
    orthogonal,
    truncated_normal,
    uniform,
    variance_scaling,
    xavier_normal,
    xavier_uniform,
    zeros,
)
from fanin.jax.parameters import initialize, make_plan

__all__ = [
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "initialize",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "make_plan",
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
