"""Flax models of every layer that fanin.jax knows, and the hash of their parameters."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx


class FlaxModel(linen.Module):
    """One layer of each kind; kernels are large enough to compare their distributions."""

    recurrent: bool = False

    @linen.compact
    def __call__(self, tokens):
        x = linen.Embed(300, 64)(tokens)
        x = linen.Dense(128, kernel_init=partitioned)(x)
        x = linen.Conv(64, kernel_size=(5,), feature_group_count=2)(x)
        x = linen.ConvTranspose(64, kernel_size=(3,))(x)
        x = linen.Conv(64, kernel_size=(3, 3), padding="SAME")(x[:, :, None, :])[:, :, 0]
        x = linen.BatchNorm(use_running_average=False)(x)
        x = linen.MultiHeadDotProductAttention(num_heads=4)(x, x)
        x = linen.GroupNorm(num_groups=4)(linen.LayerNorm()(x))
        x = linen.RMSNorm()(linen.PReLU()(x))
        if self.recurrent:
            for kind in (linen.LSTMCell, linen.GRUCell, linen.MGUCell, linen.SimpleCell):
                cell = kind(64)
                carry = cell.initialize_carry(jax.random.key(0), x[:, 0].shape)
                cell(carry, x[:, 0])
        return x


class NnxModel(nnx.Module):
    """The same in Flax's other interface."""

    def __init__(self, rngs, recurrent=False):
        self.embed = nnx.Embed(300, 64, rngs=rngs)
        self.dense = nnx.Linear(64, 128, rngs=rngs)
        self.conv = nnx.Conv(64, 64, kernel_size=(3, 3), rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=4, in_features=64, rngs=rngs)
        self.norms = nnx.List([nnx.LayerNorm(64, rngs=rngs), nnx.BatchNorm(64, rngs=rngs)])
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        if recurrent:
            self.lstm = nnx.LSTMCell(64, 64, rngs=rngs)
            self.gru = nnx.GRUCell(64, 64, rngs=rngs)


def abstract_variables():
    """What `jax.eval_shape` says of FlaxModel."""
    tokens = jnp.zeros((2, 4), int)
    return jax.eval_shape(FlaxModel(recurrent=True).init, jax.random.key(0), tokens)


def partitioned(key, shape, dtype=jnp.float32):
    init = linen.with_partitioning(linen.initializers.lecun_normal(), (None, "model"))
    return init(key, shape, dtype)


def sha256(tree):
    """One hash of all leaves, in the tree's order."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()
