"""fanin.jax.initialize: Flax's own distributions, names and layouts, and any number of devices.

Flax's own `init` is the reference: every leaf of a model with a layer of each kind is compared with
what Flax draws for it. Devices are tested in one process of its own, as their number is fixed when
JAX starts.
"""

import json
import math
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
from scipy import stats

import fanin
import fanin.jax
import flax_models
from fanin.jax import trees


def leaf(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def linen_variables():
    model, key = flax_models.FlaxModel(recurrent=True), jax.random.key(1)
    quickly = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(model.init, compiler_options=quickly)(key, jnp.zeros((2, 4), int))


def nnx_state():
    model = nnx.jit(lambda: flax_models.NnxModel(nnx.Rngs(0), recurrent=True))()
    return nnx.state(model, (nnx.Param, nnx.BatchStat))


def is_orthogonal(matrix):
    if matrix.ndim != 2 or matrix.shape[0] > matrix.shape[1]:
        return False
    return bool(np.allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-4))


@pytest.mark.parametrize(("make", "matrices"), [(linen_variables, 29), (nnx_state, 17)])
def test_auto_is_what_flax_does(make, matrices):
    theirs = make()
    abstract = jax.eval_shape(lambda: theirs)
    ours = fanin.jax.initialize(abstract, seed=1)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    named = trees.leaves_of(theirs)
    sampled = 0
    for (name, _, value), mine in zip(named, jax.tree.leaves(ours), strict=True):
        assert (mine.shape, mine.dtype) == (value.shape, value.dtype), name
        mine, value = np.asarray(mine), np.asarray(value)
        if np.ptp(value) == 0:
            np.testing.assert_array_equal(mine, value, err_msg=name)
        else:
            sampled += 1
            assert stats.ks_2samp(mine.ravel(), value.ravel()).pvalue > 1e-5, name
            assert mine.std() == pytest.approx(value.std(), rel=0.05), name
            assert is_orthogonal(mine) == is_orthogonal(value), name
    assert sampled == matrices


def test_names_are_paths():
    names = [name for name, _, _ in trees.leaves_of({"a": [leaf(1), {"b": leaf(2)}]})]
    assert sorted(names) == ["a/0", "a/1/b"]
    assert trees.leaves_of({3: leaf(3)})[0].name == "3"
    assert trees.leaves_of(leaf(3))[0].name == ""
    boxed = {"dense": {"kernel": nnx.Param(leaf(3, 4))}}
    assert trees.leaves_of(boxed)[0].name == "dense/kernel"
    attention = {"value": {"kernel": leaf(3, 4)}}
    assert trees.leaves_of(attention)[0].name == "value/kernel"


def test_a_leaf_depends_on_its_name_alone():
    small = {"b": {"kernel": leaf(6, 5)}}
    large = {"a": {"kernel": leaf(9, 9)}, "b": {"bias": leaf(5), **small["b"]}}
    one, two = (fanin.jax.initialize(tree, seed=2)["b"]["kernel"] for tree in (small, large))
    np.testing.assert_array_equal(one, two)
    expected = fanin.lecun_normal((6, 5), truncated=True, layout="io", seed=2, name="b/kernel")
    np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize(
    ("scheme", "kernel", "embedding"),
    [
        ("auto", 1 / math.sqrt(400), 1 / math.sqrt(300)),
        ("he", math.sqrt(2 / 400), 1 / math.sqrt(300)),
        ("xavier", math.sqrt(2 / 700), math.sqrt(2 / 500)),
        ("torch_default", 1 / math.sqrt(3 * 400), 1.0),
        ("orthogonal", 1 / math.sqrt(400), 0.02),
        ("bert", 0.02, 0.02),
        ("llama", 0.02, 0.02),
        ("lecun", math.sqrt(1 / 400), math.sqrt(1 / 300)),
        ("small(std=1e-4)", 1e-4, 1e-4),
        ("he(embedding_std=1/sqrt(d))", math.sqrt(2 / 400), math.sqrt(1 / 300)),
    ],
)
def test_schemes(scheme, kernel, embedding):
    tree = {
        "d": {"kernel": leaf(400, 300), "bias": leaf(300)},
        "e": {"embedding": leaf(200, 300)},
        "n": {"scale": leaf(4), "bias": leaf(4)},
    }
    params = jax.tree.map(np.asarray, fanin.jax.initialize(tree, scheme))
    assert params["d"]["kernel"].std() == pytest.approx(kernel, rel=0.01)
    assert params["e"]["embedding"].std() == pytest.approx(embedding, rel=0.01)
    bias = params["d"]["bias"]
    expected = 1 / math.sqrt(3 * 400) if scheme == "torch_default" else 0.0
    assert bias.std() == pytest.approx(expected, rel=0.1)
    assert (params["n"]["scale"] == 1).all()
    assert not params["n"]["bias"].any()


def test_options_on_layers_by_name():
    names = ("query", "key", "value", "out")
    attention = {
        name: {"kernel": leaf(40, 2, 5) if name != "out" else leaf(2, 5, 40)} for name in names
    }
    gates = {f"h{gate}": {"kernel": leaf(8, 8), "bias": leaf(8)} for gate in "ifgo"}
    inputs = {f"i{gate}": {"kernel": leaf(4, 8)} for gate in "ifgo"}
    tree = {"attention": attention, "lstm": gates | inputs}
    plain = jax.tree.map(np.asarray, fanin.jax.initialize(tree, "xavier"))
    text = "xavier(qk_scale=0.5, lstm_forget_bias=1)"
    changed = jax.tree.map(np.asarray, fanin.jax.initialize(tree, text))
    for name in names:
        factor = 0.5 if name in ("query", "key") else 1.0
        one, other = (params["attention"][name]["kernel"] for params in (plain, changed))
        np.testing.assert_allclose(other, factor * one, rtol=1e-6)
    biases = {gate: changed["lstm"][f"h{gate}"]["bias"] for gate in "ifgo"}
    assert {gate: set(bias.tolist()) for gate, bias in biases.items()} == {
        "i": {0.0},
        "f": {1.0},
        "g": {0.0},
        "o": {0.0},
    }
    with pytest.raises(ValueError, match="head_std: tree has no output head of its own"):
        fanin.jax.make_plan(tree, "xavier(head_std=1)")


LAYOUTS = {
    "dense/kernel": ((40, 10), "io", 40),
    "conv/kernel": ((3, 40, 10), "kio", 120),
    "conv2/kernel": ((3, 3, 40, 10), "kkio", 360),
    "conv3/kernel": ((2, 2, 2, 40, 10), "kkkio", 320),
    "attention/query/kernel": ((40, 2, 5), "ioo", 40),
    "attention/key/kernel": ((40, 2, 5), "ioo", 40),
    "attention/value/kernel": ((40, 2, 5), "ioo", 40),
    "attention/out/kernel": ((2, 5, 40), "iio", 10),
    "embed/embedding": ((40, 10), "oi", 10),
}


def test_layouts_and_fans():
    tree = {name: leaf(*shape) for name, (shape, _, _) in LAYOUTS.items()}
    nested = {}
    for name, value in tree.items():
        *path, last = name.split("/")
        node = nested
        for word in path:
            node = node.setdefault(word, {})
        node[last] = value
    for entry in fanin.jax.make_plan(nested).entries:
        _, layout, fan_in = LAYOUTS[entry.tensor.name]
        assert entry.tensor.layout == layout, entry.tensor.name
        assert entry.std == pytest.approx(1 / math.sqrt(fan_in)), entry.tensor.name


def test_names_alone_decide_nothing():
    """A Dense called `out`, or `h`, is a Dense."""
    tree = {name: {"kernel": leaf(4, 4)} for name in ("out", "h", "hi", "query2", "dense_h")}
    assert {entry.tensor.role for entry in fanin.jax.make_plan(tree).entries} == {"dense"}


def test_layouts_can_be_given():
    tree = {"blocks": {"kernel": leaf(8, 40, 10), "bias": leaf(8, 10)}}
    plan = fanin.jax.make_plan(tree, layouts=[("*", "kio"), ("*/kernel", "bio")][1:])
    stds = {entry.tensor.name: entry.std for entry in plan.entries}
    assert stds["blocks/kernel"] == pytest.approx(1 / math.sqrt(40))
    plan = fanin.jax.make_plan(tree, "torch_default", layouts=[("*/kernel", "bio")])
    stds = {entry.tensor.name: entry.std for entry in plan.entries}
    assert stds["blocks/bias"] == pytest.approx(1 / math.sqrt(3 * 40))


def test_overrides():
    tree = {"d": {"kernel": leaf(50, 40), "bias": leaf(40)}, "cls": leaf(1, 40)}
    rules = [("*", "ones"), ("cls", fanin.initializers.Constant(3.0)), ("d/k*", "normal(std=0.5)")]
    params = fanin.jax.initialize(tree, overrides=rules)
    assert (params["cls"] == 3).all()
    assert (params["d"]["bias"] == 1).all()
    expected = fanin.normal((50, 40), std=0.5, seed=0, name="d/kernel")
    np.testing.assert_array_equal(params["d"]["kernel"], expected)


def test_dtypes_empty_leaves_and_threads():
    tree = {
        "a": {"kernel": leaf(64, 70, dtype="bfloat16"), "bias": leaf(dtype="float8_e5m2")},
        "b": {"kernel": leaf(0, 3), "bias": leaf(3, dtype="float16")},
    }
    one, two = (fanin.jax.initialize(tree, seed=1, threads=threads) for threads in (1, 2))
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(np.asarray(x), np.asarray(y)), one, two)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), one) == jax.tree.map(
        lambda x: (x.shape, x.dtype), tree
    )


def test_arrays_and_shardings_of_leaves():
    sharding = NamedSharding(jax.make_mesh((1,), ("x",)), PartitionSpec("x"))
    told = jax.ShapeDtypeStruct((4, 3), jnp.float32, sharding=sharding)
    made = fanin.jax.initialize({"a": {"kernel": told}, "b": {"kernel": jnp.ones((4, 3))}})
    assert made["a"]["kernel"].sharding == sharding
    assert isinstance(made["b"]["kernel"].sharding, SingleDeviceSharding)
    tree = {"a": {"kernel": leaf(4, 3), "bias": leaf(3)}, "b": {"kernel": leaf(4, 3)}}
    made = fanin.jax.initialize(tree, shardings={"a": sharding, "b": None})
    assert made["a"]["kernel"].sharding == sharding
    assert isinstance(made["b"]["kernel"].sharding, SingleDeviceSharding)


DENSE = {"dense": {"kernel": leaf(3, 4)}}

ERRORS = {
    "nothing": (lambda: fanin.jax.initialize({}), "abstract_params has no leaves: there is nothi"),
    "no rule": (
        lambda: fanin.jax.initialize({"cls": leaf(3), "pos": leaf(2, 2), **DENSE}),
        r"no rule for cls \(3,\), pos \(2, 2\): .* give each an override",
    ),
    "not floats": (
        lambda: fanin.jax.initialize({"n": leaf(dtype="int32"), "z": leaf(dtype="complex64")}),
        r"no parameters of a dtype that fanin fills: n \(int32\), z \(complex64\)",
    ),
    "keys": (
        lambda: fanin.jax.initialize(
            nnx.state(nnx.eval_shape(lambda: flax_models.NnxModel(nnx.Rngs(0))))
        ),
        r"dropout/rngs/count \(uint32\), dropout/rngs/key \(key<fry>\); pass .*nnx.Param\)",
    ),
    "a number": (
        lambda: fanin.jax.initialize({"a": 1.5}),
        "a must be a jax.ShapeDtypeStruct, as jax.eval_shape makes, or an array, got 1.5",
    ),
    "scheme": (lambda: fanin.jax.initialize(DENSE, "hee"), "unknown scheme 'hee'; did you mean"),
    "depth": (
        lambda: fanin.jax.initialize(DENSE, "gpt2"),
        "scheme 'gpt2' needs more than a tree says, such as the number of blocks; allowed: auto,",
    ),
    "seed": (lambda: fanin.jax.initialize(DENSE, seed=-1), "seed must be from 0"),
    "threads": (lambda: fanin.jax.initialize(DENSE, threads=0), "threads"),
    "override": (
        lambda: fanin.jax.initialize(DENSE, overrides=[("dense/kernl", "zeros")]),
        "override 'dense/kernl' matches no tensor and no part; near: dense/kernel",
    ),
    "overrides": (
        lambda: fanin.jax.initialize(DENSE, overrides="*=zeros"),
        r"overrides must be a mapping or \(pattern, initializer\) pairs, got '\*=zeros'",
    ),
    "layouts": (
        lambda: fanin.jax.initialize(DENSE, layouts=[("x", "io")]),
        "layouts: 'x' matches no leaf; there are dense/kernel",
    ),
    "layout": (
        lambda: fanin.jax.initialize(DENSE, layouts=[("*", "ioo")]),
        r"layouts: dense/kernel: layout 'ioo' names 3 axes, but shape \(3, 4\) has 2",
    ),
    "same name": (
        lambda: fanin.jax.initialize({"a": {"kernel": leaf(2, 2)}, "a/kernel": leaf(2, 2)}),
        "share the name 'a/kernel'|no rule for a/kernel",
    ),
    "shardings": (
        lambda: fanin.jax.initialize(DENSE, shardings={"dens": None}),
        "shardings must be a tree like abstract_params",
    ),
    "sharding": (
        lambda: fanin.jax.initialize(DENSE, shardings={"dense": {"kernel": "x"}}),
        "dense/kernel: a sharding must be a jax.sharding.Sharding, got 'x'",
    ),
    "mesh": (
        lambda: fanin.jax.initialize(DENSE, shardings=PartitionSpec("x")),
        "dense/kernel: .* names the axes of a mesh, and none is set: call jax.set_mesh",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.fixture(scope="module")
def eight_devices():
    result = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("jax_devices.py"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_same_model_on_any_devices(eight_devices):
    assert eight_devices["devices"] == 8
    tree = flax_models.abstract_variables()["params"]
    here = flax_models.sha256(fanin.jax.initialize(tree, seed=3))
    assert len(eight_devices["hashes"]) == 13
    assert set(eight_devices["hashes"].values()) == {here}


def test_a_device_samples_its_region_only(eight_devices):
    assert eight_devices["elements"] == {"sharded": [64 * 48 // 8] * 8, "shared": [64 * 24] * 2}


def test_sharded_initializers(eight_devices):
    assert len(eight_devices["out_shardings"]) == 14
    assert all(eight_devices["out_shardings"].values()), eight_devices["out_shardings"]


def test_errors_about_devices(eight_devices):
    assert eight_devices["errors"]["uneven"].startswith("BatchNorm_0/bias: Sharding ")
    assert "none is set: call jax.set_mesh" in eight_devices["errors"]["no mesh"]
