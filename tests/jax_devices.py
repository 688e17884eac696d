"""What tests/test_jax.py asks of a process with 8 host devices. Prints one JSON object."""

import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import fanin.jax
from fanin.jax import sampling
from flax_models import abstract_variables, sha256

P = PartitionSpec
TREE = abstract_variables()["params"]


def by_largest_axis(mesh):
    """Each leaf cut along its last axes that the mesh divides, so that some stay whole."""

    def cut(leaf):
        spec = [None] * leaf.ndim
        names = list(mesh.shape.items())
        for axis in reversed(range(leaf.ndim)):
            if names and leaf.shape[axis] % names[-1][1] == 0:
                spec[axis] = names.pop()[0]
        return NamedSharding(mesh, P(*spec))

    return jax.tree.map(cut, TREE)


def meshes():
    devices = np.array(jax.devices())
    for count in (1, 2, 4, 8):
        yield f"{count}", Mesh(devices[:count], ("x",))
    yield "4x2", Mesh(devices.reshape(4, 2), ("x", "y"))
    yield "2x2x2", Mesh(devices.reshape(2, 2, 2), ("a", "b", "c"))


def whole_models():
    hashes = {"one": sha256(fanin.jax.initialize(TREE, seed=3))}
    for name, mesh in meshes():
        params = fanin.jax.initialize(TREE, seed=3, shardings=by_largest_axis(mesh))
        hashes[name] = sha256(params)
        replicated = NamedSharding(mesh, P())
        hashes[f"{name} replicated"] = sha256(
            fanin.jax.initialize(TREE, seed=3, shardings=replicated)
        )
    return hashes


def elements_of_each_device():
    """Elements sampled for one sharded leaf, and for one that two of four devices share."""
    sizes, original = [], sampling.empty

    def spy(shape, dtype):
        sizes.append(int(np.prod(shape)))
        return original(shape, dtype)

    sampling.empty = spy
    try:
        leaf = {"kernel": jax.ShapeDtypeStruct((64, 48), jnp.float32)}
        mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        result = {}
        for name, spec in {"sharded": P("x", "y"), "shared": P(None, "y")}.items():
            sizes.clear()
            fanin.jax.initialize(leaf, shardings=NamedSharding(mesh, spec))
            result[name] = list(sizes)
        return result
    finally:
        sampling.empty = original


def out_shardings():
    """Sharded initializers: directly, in jit, under a mesh, of both kinds of axes."""
    key, init, results = jax.random.key(5), fanin.jax.lecun_normal(), {}
    whole = np.asarray(init(key, (16, 6)))
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((8,), ("x",), axis_types=(kind,))
        sharding = NamedSharding(mesh, P("x"))

        def sharded(key, sharding):
            return init(key, (16, 6), jnp.float32, sharding)

        def told(key, sharding):
            return jax.jit(lambda key: sharded(key, sharding))(key)

        def by_jit(key, sharding):
            return jax.jit(lambda key: init(key, (16, 6)), out_shardings=sharding)(key)

        calls = {"direct": sharded, "jit": told, "out_shardings": by_jit}
        with jax.set_mesh(mesh):
            made = {name: call(key, sharding) for name, call in calls.items()}
            made["spec"] = sharded(key, P("x"))
            made["spec in jit"] = told(key, P("x"))
            # As Flax shards a parameter whose initializer is told nothing.
            made["later"] = nnx.Param(init(key, (16, 6)), out_sharding=("x", None)).get_value()
        made["no mesh"] = sharded(key, sharding)
        for name, array in made.items():
            same = np.array_equal(array, whole) and array.sharding.is_equivalent_to(sharding, 2)
            results[f"{kind.name} {name}"] = bool(same)
    return results


def errors():
    found = {}
    mesh = Mesh(np.array(jax.devices()[:3]), ("x",))
    calls = {
        "uneven": lambda: fanin.jax.initialize(TREE, shardings=NamedSharding(mesh, P("x"))),
        "no mesh": lambda: fanin.jax.normal()(jax.random.key(0), (8,), None, P("x")),
    }
    for name, call in calls.items():
        try:
            call()
        except ValueError as error:
            found[name] = str(error)
    return found


if __name__ == "__main__":
    report = {
        "devices": jax.device_count(),
        "hashes": whole_models(),
        "elements": elements_of_each_device(),
        "out_shardings": out_shardings(),
        "errors": errors(),
    }
    print(json.dumps(report))
