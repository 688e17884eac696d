"""From a JAX key to an array: the seed in the key, memory that JAX can adopt, and the callback.

Outside of a transformation an array is sampled into fresh memory that starts on a cache line, which
JAX on the CPU adopts without a copy; nothing else holds that memory, so it never changes later.
Inside of `jit` the key has no value yet: the compiled program calls back, and copies once.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fanin.initializers import Initializer
from fanin.output import ITEMSIZE, dtype_name, numpy_dtype, region_bounds

__all__ = ["empty", "float_dtype", "on_devices", "sample", "sample_region", "seed_of"]

# XLA on the CPU adopts memory that is aligned to this many bytes, and copies any other.
_ALIGNMENT = 64


def sample(
    initializer: Initializer,
    key: Any,
    shape: tuple[int, ...],
    layout: str | None,
    dtype: np.dtype[Any],
    out_sharding: Any,
) -> jax.Array:
    """Sample the matrix that belongs to a key, here or, while JAX traces, in a callback."""
    words = _key_words(key)
    # What the dtype cannot hold is found here, not in a callback of a running program.
    initializer.filler(shape, layout, 1, dtype.name)
    if isinstance(words, jax.core.Tracer):
        return _sample_later(initializer, words, shape, layout, dtype, out_sharding)
    seed = seed_of(words)

    def region(index: tuple[slice, ...]) -> NDArray[Any]:
        return sample_region(initializer, shape, index, layout, dtype, seed=seed)

    if out_sharding is None:
        out_sharding = _over_the_mesh()
    if out_sharding is None:
        return jax.device_put(region((slice(None),) * len(shape)))
    return jax.make_array_from_callback(shape, on_devices(out_sharding), region)


def sample_region(
    initializer: Initializer,
    shape: tuple[int, ...],
    region: tuple[slice, ...],
    layout: str | None,
    dtype: np.dtype[Any],
    *,
    seed: int,
    name: str = "",
    threads: int | None = None,
) -> NDArray[Any]:
    """Sample the region of a matrix that JAX asks for by its slices."""
    _, extent = region_bounds(region, shape)
    return initializer.fill(
        empty(extent, dtype),
        seed=seed,
        name=name,
        layout=layout,
        shape=shape,
        region=region,
        threads=threads,
    )


def seed_of(words: Any) -> int:
    """Return the 64-bit seed in the words of a key.

    A threefry key has two words, the high and the low half of the seed: that of
    `jax.random.key(7)` is 7. A key of four words (`rbg`) is hashed, by BLAKE2b.

    Examples
    --------
    >>> import jax
    >>> seed_of(jax.random.key_data(jax.random.key(7)))
    7
    """
    values = np.asarray(words, dtype=np.uint32)
    if values.size == 2:
        return int(values[0]) << 32 | int(values[1])
    digest = blake2b(values.astype("<u4").tobytes(), digest_size=8, person=b"fanin jax key")
    return int.from_bytes(digest.digest(), "little")


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype that JAX makes of one that was asked for; of None, its default float.

    Without `jax_enable_x64` float64 becomes float32, with JAX's warning.
    """
    if dtype is None or dtype is float:
        dtype = jax.dtypes.canonicalize_dtype(float)
    try:
        name = dtype_name(dtype)
    except ValueError:
        raise ValueError(
            f"fanin.jax samples {', '.join(ITEMSIZE)}; got dtype {np.dtype(dtype).name}:"
            " jax.nn.initializers has complex numbers"
        ) from None
    if name == "float64" and not jax.config.jax_enable_x64:
        name = str(jnp.zeros((), dtype).dtype)
    return numpy_dtype(name)


def on_devices(sharding: Any) -> Any:
    """Return a sharding over devices; one over a mesh's names means the mesh that is set."""
    if isinstance(sharding, jax.sharding.PartitionSpec):
        spec = sharding
    elif isinstance(getattr(sharding, "mesh", None), jax.sharding.AbstractMesh):
        spec = sharding.spec
    elif isinstance(sharding, jax.sharding.Sharding):
        return sharding
    else:
        raise TypeError(f"a sharding must be a jax.sharding.Sharding, got {sharding!r}")
    mesh = jax.sharding.get_mesh()
    if mesh.empty:
        raise ValueError(
            f"{sharding} names the axes of a mesh, and none is set: call jax.set_mesh, or pass"
            " NamedSharding(mesh, spec)"
        )
    return jax.sharding.NamedSharding(mesh, spec)


def _over_the_mesh() -> Any:
    """Return where JAX puts what nobody has sharded: every device of the mesh that is set, if any.

    Flax shards such an array further, which it refuses to do with one that is on a single device.
    """
    if jax.sharding.get_abstract_mesh().empty:
        return None
    try:
        mesh = jax.sharding.get_mesh()
    except ValueError:  # inside of `jit`, with a key that is a constant there
        return None
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return fresh memory, aligned so that JAX on the CPU adopts it."""
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + num_bytes].view(dtype).reshape(shape)


def _key_words(key: Any) -> Any:
    """Return the words of one key, typed or raw; a tracer while JAX traces."""
    words = jax.random.key_data(key)
    if words.ndim != 1 or words.shape[0] not in (2, 4):
        batch = words.shape[:-1]
        raise ValueError(
            f"key must be one key of 2 or 4 words, got keys of shape {batch} with"
            f" {words.shape[-1]} words: use jax.vmap over keys"
        )
    return words


def _sample_later(
    initializer: Initializer,
    words: Any,
    shape: tuple[int, ...],
    layout: str | None,
    dtype: np.dtype[Any],
    out_sharding: Any,
) -> jax.Array:
    def sample_batch(words: Any) -> NDArray[Any]:
        words = np.asarray(words)
        batch = words.shape[:-1]  # of the keys that vmap has put together
        out = np.empty(batch + shape, dtype)
        for index in np.ndindex(batch):
            initializer.fill(out[(*index, ...)], seed=seed_of(words[index]), layout=layout)
        return out

    result = jax.ShapeDtypeStruct(shape, dtype)
    array = jax.pure_callback(sample_batch, result, words, vmap_method="expand_dims")
    if out_sharding is None:
        return array
    return _constrain(array, out_sharding)


def _constrain(array: Any, sharding: Any) -> Any:
    """Shard a value of a traced program, over a mesh with explicit or automatic axes."""
    mesh = getattr(sharding, "mesh", None) or jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return jax.lax.with_sharding_constraint(array, on_devices(sharding))
    if set(mesh.axis_types) == {jax.sharding.AxisType.Explicit}:
        return jax.sharding.reshard(array, sharding)
    return jax.lax.with_sharding_constraint(array, sharding)
