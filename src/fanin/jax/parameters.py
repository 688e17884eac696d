"""All parameters of a JAX model: a plan of the tree, then each device's region of each leaf.

The tree is only described (`jax.eval_shape`), so nothing is sampled twice and no device holds more
than its share. Fans are those of the whole matrix, and bits depend on its name: the same model on
1, 2 or 8 devices, on any mesh, has the same values.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import jax
from numpy.typing import NDArray

from fanin import plan as plans
from fanin import schemes
from fanin.jax.sampling import empty, on_devices, sample_region
from fanin.jax.trees import Leaf, leaves_of, model_of
from fanin.model import UNKNOWN
from fanin.output import numpy_dtype, region_bounds
from fanin.plan import Entry, Plan
from fanin.plan.overrides import Overrides, override_pairs
from fanin.threads import thread_count

__all__ = ["SCHEMES_OF_TREES", "initialize", "make_plan"]

SCHEMES_OF_TREES = (
    "auto",
    "torch_default",
    "xavier",
    "he",
    "lecun",
    "orthogonal",
    "bert",
    "llama",
    "small",
)
"""Schemes that need roles and shapes only. `auto` is what Flax's layers start from."""


def initialize(
    abstract_params: Any,
    scheme: str = "auto",
    seed: int = 0,
    overrides: Overrides = (),
    shardings: Any = None,
    threads: int | None = None,
    *,
    layouts: Iterable[tuple[str, str]] = (),
) -> Any:
    """Make the parameters that a tree describes.

    Parameters
    ----------
    abstract_params : tree of jax.ShapeDtypeStruct
        As `jax.eval_shape` makes it: Flax linen's variables or their `params`, an nnx state, or any
        other tree. Leaves that are arrays count for their shapes and dtypes only.
    scheme : {"auto", "torch_default", "xavier", "he", "lecun", "orthogonal", "bert", "llama", \
"small"}
        `auto`: what Flax's layers start from. `he` takes the gain of relu. With options or without:
        `he(qk_scale=0.5)`.
    seed : int, default 0
        From 0 to 2**64 - 1.
    overrides : mapping or iterable of (pattern, initializer), optional
        Each pattern is a shell-style glob over names, which are paths: `params/Dense_0/kernel`. The
        last that matches decides.
    shardings : tree of jax.sharding.Sharding, optional
        Of the same structure, or one for each subtree, or one for all. Default: those that the
        leaves carry, else JAX's default device.
    threads : int, optional
        Default: `FANIN_NUM_THREADS`, or `OMP_NUM_THREADS`, or the CPUs there are.
    layouts : iterable of (pattern, layout), optional
        For kernels whose axes are not in Flax's order, such as `"bio"` where `nn.scan` stacked
        them.

    Returns
    -------
    tree of jax.Array
        Of the same structure. On the CPU the arrays are the memory that was filled, not copies.

    Raises
    ------
    ValueError, TypeError
        A leaf that is no float or that no rule covers (all of them are listed), a pattern that
        matches nothing, a sharding that does not divide its leaf. Nothing has been made then.

    Examples
    --------
    >>> import fanin.jax, jax, jax.numpy as jnp
    >>> shape = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    >>> params = fanin.jax.initialize({"dense": {"kernel": shape}}, scheme="he", seed=1)
    >>> whole = fanin.he_normal((3, 4), layout="io", seed=1, name="dense/kernel")
    >>> bool((params["dense"]["kernel"] == whole).all())
    True
    """
    if threads is not None:
        threads = thread_count(threads)
    leaves = leaves_of(abstract_params)
    plan = _plan(leaves, scheme, seed, overrides, layouts)
    places = _places(abstract_params, leaves, shardings)
    arrays = [
        _make(entry, plan.seed, place, threads)
        for entry, place in zip(plan.entries, places, strict=True)
    ]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(abstract_params), arrays)


def make_plan(
    abstract_params: Any,
    scheme: str = "auto",
    seed: int = 0,
    overrides: Overrides = (),
    *,
    layouts: Iterable[tuple[str, str]] = (),
) -> Plan:
    """Return what `initialize` would make, checked: `print(plan.table())` shows it.

    Parameters and errors are those of `initialize`.

    Examples
    --------
    >>> import fanin.jax, jax, jax.numpy as jnp
    >>> shape = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    >>> fanin.jax.make_plan({"dense": {"kernel": shape}}).entries[0].initializer
    'variance_scaling'
    """
    return _plan(leaves_of(abstract_params), scheme, seed, overrides, layouts)


def _plan(
    leaves: list[Leaf],
    scheme: str,
    seed: int,
    overrides: Overrides,
    layouts: Iterable[tuple[str, str]],
) -> Plan:
    if (name := schemes.read(scheme).name) not in SCHEMES_OF_TREES:
        raise ValueError(
            f"scheme {name!r} needs more than a tree says, such as the number of blocks; allowed:"
            f" {', '.join(SCHEMES_OF_TREES)}"
        )
    overrides = override_pairs(overrides)
    model = model_of(leaves, layouts)
    missing = [
        f"{tensor.name} {tensor.shape}"
        for tensor in model.tensors
        if tensor.role == UNKNOWN
        and tensor.parts
        and not any(fnmatchcase(tensor.name, pattern) for pattern, _ in overrides)
    ]
    if missing:
        raise ValueError(
            f"no rule for {', '.join(missing)}: Flax's layers have no such parameters; give each"
            ' an override, such as ("*/pos_embedding", "normal(std=0.02)")'
        )
    return plans.make_plan(model, scheme=scheme, seed=seed, overrides=overrides)


def _make(entry: Entry, seed: int, sharding: Any, threads: int | None) -> jax.Array:
    """Make one leaf: on the default device, or each device's region of it."""
    shape, dtype = entry.tensor.shape, numpy_dtype(entry.dtype)
    made: dict[Any, NDArray[Any]] = {}

    def region(index: tuple[slice, ...]) -> NDArray[Any]:
        """Sample a region, once for all the devices here that hold it."""
        bounds = region_bounds(index, shape)
        if bounds not in made:
            made[bounds] = empty(bounds[1], dtype)
            for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
                made[bounds] = sample_region(
                    initializer,
                    shape,
                    index,
                    part.layout,
                    dtype,
                    seed=seed,
                    name=part.name,
                    threads=threads,
                )
        return made[bounds]

    if sharding is None:
        return jax.device_put(region((slice(None),) * len(shape)))
    return jax.make_array_from_callback(shape, sharding, region)


def _places(tree: Any, leaves: list[Leaf], shardings: Any) -> list[Any]:
    """The sharding of each leaf over devices, checked; None for the default device."""
    if shardings is None:
        given = [None if _is_plain(leaf.value) else leaf.value.sharding for leaf in leaves]
    else:
        given = _broadcast(shardings, tree)
    places = []
    for leaf, sharding in zip(leaves, given, strict=True):
        try:
            place = None if sharding is None else on_devices(sharding)
            if place is not None:
                place.shard_shape(tuple(leaf.value.shape))
        except (ValueError, TypeError) as error:
            raise type(error)(f"{leaf.name}: {error}") from None
        places.append(place)
    return places


def _is_plain(value: Any) -> bool:
    """True for a leaf that does not say where it goes."""
    sharding = getattr(value, "sharding", None)
    return sharding is None or isinstance(sharding, jax.sharding.SingleDeviceSharding)


def _broadcast(shardings: Any, tree: Any) -> list[Any]:
    """The sharding of each leaf, from a tree of the same structure or of its upper part."""
    found: list[Any] = []

    def repeat(sharding: Any, part: Any) -> None:
        found.extend([sharding] * jax.tree_util.tree_structure(part).num_leaves)

    kinds = (jax.sharding.Sharding, jax.sharding.PartitionSpec, type(None))
    try:
        jax.tree_util.tree_map(
            repeat, shardings, tree, is_leaf=lambda value: isinstance(value, kinds)
        )
    except ValueError as error:
        raise ValueError(f"shardings must be a tree like abstract_params: {error}") from None
    return found
