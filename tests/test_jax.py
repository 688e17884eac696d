"""fanin.jax's initializers: JAX's names, arguments and distributions, in every way JAX calls them.

JAX's own functions are the reference: signatures by `inspect`, distributions by the two-sample
Kolmogorov-Smirnov test.
"""

import importlib
import inspect
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from scipy import stats

import fanin
import fanin.jax
from fanin.jax import sampling

NAMES = [
    *("zeros", "ones", "constant", "uniform", "normal", "truncated_normal", "variance_scaling"),
    *("glorot_uniform", "glorot_normal", "xavier_uniform", "xavier_normal"),
    *("he_uniform", "he_normal", "kaiming_uniform", "kaiming_normal"),
    *("lecun_uniform", "lecun_normal", "orthogonal", "delta_orthogonal"),
]
SCALED = ["glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform"]
SCALED += ["lecun_normal"]
KEY = jax.random.key(7)


def parameters(function):
    """What a caller sees of a signature: all but the annotations."""
    values = inspect.signature(function).parameters.values()
    return [(value.name, value.kind, value.default) for value in values]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_jax(name):
    ours, theirs = getattr(fanin.jax, name), getattr(jax.nn.initializers, name)
    assert parameters(ours) == parameters(theirs)
    assert getattr(fanin.jax.initializers, name) is ours
    given = {"constant": (2.0,), "variance_scaling": (1.0, "fan_in", "normal")}.get(name, ())
    if name not in ("zeros", "ones"):
        assert parameters(ours(*given)) == parameters(theirs(*given))


def test_every_initializer_of_jax_is_there():
    theirs = {name for name in vars(jax.nn.initializers) if name[0].islower()}
    assert theirs <= set(NAMES) <= set(fanin.jax.__all__)


def scaling(mode, distribution, **axes):
    return {"scale": 3.0, "mode": mode, "distribution": distribution, **axes}


CASES = [
    *((name, {}, (300, 200)) for name in SCALED),
    ("he_normal", {}, (3, 3, 64, 96)),
    ("glorot_uniform", {"in_axis": 1, "out_axis": 0}, (300, 200)),
    ("glorot_normal", {"in_axis": (0, 1), "out_axis": (-2, -1)}, (8, 16, 4, 100)),
    ("lecun_uniform", {"batch_axis": 0}, (4, 120, 96)),
    ("lecun_normal", {"in_axis": -2, "out_axis": -1, "batch_axis": (0, 1)}, (2, 3, 120, 96)),
    ("uniform", {}, (60000,)),
    ("uniform", {"scale": 3.0}, (300, 200)),
    ("normal", {}, (60000,)),
    ("normal", {"stddev": 2.5}, (300, 200)),
    ("truncated_normal", {}, (60000,)),
    ("truncated_normal", {"stddev": 2.0, "lower": -1.0, "upper": 3.0}, (300, 200)),
    # What Flax's Embed starts from: axis 0 is both input and output.
    ("variance_scaling", scaling("fan_in", "normal", out_axis=0), (300, 200)),
    ("variance_scaling", scaling("fan_in", "normal", in_axis=[], out_axis=[0]), (60000,)),
    *(
        ("variance_scaling", scaling(mode, distribution), (300, 200))
        for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
        for distribution in ("normal", "uniform", "truncated_normal")
    ),
]


@pytest.mark.parametrize(("name", "arguments", "shape"), CASES)
def test_distributions_are_those_of_jax(name, arguments, shape):
    ours = getattr(fanin.jax, name)(**arguments)(KEY, shape)
    theirs = getattr(jax.nn.initializers, name)(**arguments)(KEY, shape)
    assert (ours.shape, ours.dtype, ours.weak_type) == (theirs.shape, theirs.dtype, False)
    assert stats.ks_2samp(np.ravel(ours), np.ravel(theirs)).pvalue > 1e-4
    assert float(np.std(ours)) == pytest.approx(float(np.std(theirs)), rel=0.02)


def test_the_comparison_sees_what_it_should():
    theirs = jax.nn.initializers.he_normal()(KEY, (300, 200))
    plain = fanin.he_normal((300, 200), layout="io", seed=7)
    swapped = fanin.he_normal((300, 200), layout="oi", truncated=True, seed=7)
    cut = fanin.jax.truncated_normal(float(np.sqrt(2 / 300)))(KEY, (300, 200))
    for wrong in (plain, swapped, cut):
        assert stats.ks_2samp(np.ravel(wrong), np.ravel(theirs)).pvalue < 1e-4


@pytest.mark.parametrize(
    ("shape", "axis", "layout"),
    [((40, 300), -1, "io"), ((300, 40), 1, "io"), ((5, 60, 40), 1, "ioi"), ((7, 8), 0, "oi")],
)
def test_orthogonal(shape, axis, layout):
    weight = fanin.jax.orthogonal(2.0, axis)(KEY, shape)
    assert weight.shape == jax.nn.initializers.orthogonal(2.0, axis)(KEY, shape).shape
    matrix = np.moveaxis(np.asarray(weight), axis, -1).reshape(-1, shape[axis])
    gram = matrix @ matrix.T if len(matrix) < len(matrix.T) else matrix.T @ matrix
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-5)
    expected = fanin.orthogonal(shape, gain=2.0, layout=layout, seed=7)
    np.testing.assert_array_equal(weight, expected)


def test_orthogonal_is_haar_as_in_jax():
    """The law of a corner, over many keys: signs are not fixed, and it is as far from 0."""
    keys = jax.random.split(KEY, 1500)
    ours, theirs = (
        np.asarray(jax.vmap(lambda key, init=init: init(key, (3, 4)))(keys))
        for init in (fanin.jax.orthogonal(), jax.nn.initializers.orthogonal())
    )
    for row, column in ((0, 0), (2, 3), (1, 2)):
        pair = ours[:, row, column], theirs[:, row, column]
        assert stats.ks_2samp(*pair).pvalue > 1e-4


@pytest.mark.parametrize("shape", [(4, 5, 6), (3, 4, 5, 6), (2, 3, 4, 5, 5)])
def test_delta_orthogonal(shape):
    ours, theirs = (
        np.asarray(init.delta_orthogonal(2.0)(KEY, shape))
        for init in (fanin.jax, jax.nn.initializers)
    )
    np.testing.assert_array_equal(ours != 0, theirs != 0)
    middle = tuple((size - 1) // 2 for size in shape[:-2])
    gram = ours[middle] @ ours[middle].T
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-5)


@pytest.mark.parametrize("name", SCALED)
def test_bits_are_those_of_the_seed_in_the_key(name):
    truncated = {"truncated": True} if name.endswith("normal") else {}
    expected = getattr(fanin, name)((300, 10), layout="io", seed=7, **truncated)
    np.testing.assert_array_equal(getattr(fanin.jax, name)()(KEY, (300, 10)), expected)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("zeros", "ones")])
def test_jit_and_vmap_give_the_same_bits(name):
    given = {"constant": (2.0,), "variance_scaling": (1.0, "fan_in", "normal")}.get(name, ())
    init = getattr(fanin.jax, name)(*given)
    shape = (3, 5, 6) if name == "delta_orthogonal" else (5, 6)

    def sample(key):
        return init(key, shape)

    keys = jax.random.split(KEY, 6)
    singly = np.stack([sample(key) for key in keys])
    np.testing.assert_array_equal(jax.jit(sample)(keys[0]), singly[0])
    np.testing.assert_array_equal(jax.vmap(sample)(keys), singly)
    grid = jax.jit(jax.vmap(jax.vmap(sample)))(keys.reshape(2, 3))
    np.testing.assert_array_equal(grid, singly.reshape(2, 3, *shape))
    if name != "constant":
        assert len({row.tobytes() for row in singly}) == 6


def test_tracing_samples_nothing():
    init = fanin.jax.normal()
    huge = (10**6, 10**6)
    assert jax.eval_shape(lambda: init(jax.random.key(0), huge)).shape == huge
    assert jax.jit(lambda: init(KEY, huge)).lower().out_info.shape == huge


def test_a_loop_and_a_gradient_around_an_initializer():
    init = fanin.jax.normal()
    _, scanned = jax.lax.scan(lambda _, key: (0, init(key, (4,))), 0, jax.random.split(KEY, 3))
    expected = [init(key, (4,)) for key in jax.random.split(KEY, 3)]
    np.testing.assert_array_equal(scanned, np.stack(expected))
    slope = jax.jit(jax.grad(lambda x: (x * init(KEY, (4,))).sum()))(1.0)
    assert slope == pytest.approx(float(init(KEY, (4,)).sum()), rel=1e-6)


def test_kinds_of_keys():
    init = fanin.jax.normal()
    typed = init(KEY, (8,))
    raw = jax.random.PRNGKey(7)
    np.testing.assert_array_equal(init(raw, (8,)), typed)
    np.testing.assert_array_equal(init(np.asarray(raw), (8,)), typed)
    np.testing.assert_array_equal(jax.jit(lambda key: init(key, (8,)))(raw), typed)
    others = [jax.random.key(seed, impl=impl) for impl in ("rbg", "unsafe_rbg") for seed in (7, 8)]
    others += [jax.random.wrap_key_data(jnp.array([7, 0, 0, 7], jnp.uint32), impl="rbg")]
    seeds = [sampling.seed_of(jax.random.key_data(key)) for key in others]
    assert seeds[0] == seeds[2]
    assert len({7, *seeds}) == 5 - 1
    np.testing.assert_array_equal(
        init(others[0], (8,)), jax.jit(lambda key: init(key, (8,)))(others[0])
    )


def test_the_seed_of_a_key_is_fixed():
    assert sampling.seed_of([0x01234567, 0x89ABCDEF]) == 0x0123456789ABCDEF
    assert sampling.seed_of([0, 7, 0, 7]) == 0x54D556461473CD17


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", jnp.bfloat16, "float8_e4m3fn", jnp.float8_e5m2]
)
def test_dtypes(dtype):
    name = np.dtype(dtype).name
    expected = fanin.normal((40, 3), std=0.5, seed=7, dtype=name).tobytes()
    for init in (fanin.jax.normal(0.5), fanin.jax.normal(0.5, dtype)):
        given = () if init is not None and init.__defaults__[0] is dtype else (dtype,)
        direct = init(KEY, (40, 3), *given)
        assert direct.dtype == name
        assert np.asarray(direct).tobytes() == expected
        traced = jax.jit(lambda key, init=init, given=given: init(key, (40, 3), *given))(KEY)
        assert np.asarray(traced).tobytes() == expected


def test_float64():
    with pytest.warns(UserWarning, match="float64 requested in zeros is not available"):
        assert fanin.jax.normal()(KEY, (3,), "float64").dtype == "float32"
    assert fanin.jax.normal()(KEY, (3,), float).dtype == "float32"
    with jax.enable_x64(True):
        wide = fanin.jax.he_uniform()(KEY, (30, 4))
        assert wide.dtype == "float64"
        expected = fanin.he_uniform((30, 4), layout="io", seed=7, dtype="float64")
        np.testing.assert_array_equal(wide, expected)
        traced = jax.jit(lambda key: fanin.jax.he_uniform()(key, (30, 4), "float64"))(KEY)
        np.testing.assert_array_equal(traced, expected)


def test_shapes_of_any_size():
    init = fanin.jax.variance_scaling(1.0, "fan_in", "normal", in_axis=[], out_axis=[])
    assert init(KEY, ()).shape == ()
    assert jax.jit(lambda key: init(key, ()))(KEY) == init(KEY, ())
    assert fanin.jax.he_normal()(KEY, (0, 5)).shape == (0, 5)
    assert fanin.jax.normal()(KEY, [np.int64(2), 3]).shape == (2, 3)
    assert not fanin.jax.uniform(0.0)(KEY, (5,)).any()


def test_jax_scalars_are_numbers():
    for init in (fanin.jax.uniform, fanin.jax.normal, fanin.jax.truncated_normal):
        assert init(jnp.float32(1.0), jnp.bfloat16)(KEY, (4, 4)).dtype == "bfloat16"


def test_memory_is_adopted_and_left_alone(monkeypatch):
    made = []

    def spy(shape, dtype, original=sampling.empty):
        made.append(original(shape, dtype))
        return made[-1]

    monkeypatch.setattr(sampling, "empty", spy)
    array = fanin.jax.normal(1.0)(KEY, (999, 7))
    assert array.unsafe_buffer_pointer() == made[0].ctypes.data
    before = made[0].copy()
    result = jax.jit(lambda x: x * 2, donate_argnums=0)(array)
    np.testing.assert_array_equal(result, before * 2)
    np.testing.assert_array_equal(made[0], before)


def test_flax_modules_take_them():
    model = linen.Dense(8, kernel_init=fanin.jax.he_normal(), bias_init=fanin.jax.uniform())
    direct = model.init(KEY, jnp.zeros((1, 300)))
    compiled = jax.jit(model.init)(KEY, jnp.zeros((1, 300)))
    jax.tree.map(np.testing.assert_array_equal, direct, compiled)
    assert np.asarray(direct["params"]["kernel"]).std() == pytest.approx(np.sqrt(2 / 300), rel=0.1)

    def make():
        return nnx.Linear(300, 8, kernel_init=fanin.jax.he_normal(), rngs=nnx.Rngs(7))

    plain = np.asarray(make().kernel[...])
    np.testing.assert_array_equal(nnx.jit(make)().kernel[...], plain)
    assert plain.std() == pytest.approx(np.sqrt(2 / 300), rel=0.1)

    @nnx.vmap
    def stack(key):
        return nnx.Linear(4, 3, kernel_init=fanin.jax.normal(), rngs=nnx.Rngs(key))

    stacked = np.asarray(stack(jax.random.split(KEY, 5)).kernel[...])
    assert len({matrix.tobytes() for matrix in stacked}) == 5


ERRORS = {
    "complex": (
        lambda: fanin.jax.normal()(KEY, (3,), jnp.complex64),
        r"fanin.jax samples float64, .*; got dtype complex64: jax.nn.initializers has complex",
    ),
    "integers": (lambda: fanin.jax.he_normal(dtype=int)(KEY, (3, 3)), "got dtype int64"),
    "no dtype": (lambda: fanin.jax.normal()(KEY, (3,), 1.5), "dtype must be one of float64"),
    "many keys": (
        lambda: fanin.jax.normal()(jax.random.split(KEY, 4), (3,)),
        r"key must be one key of 2 or 4 words, got keys of shape \(4,\) .* use jax.vmap",
    ),
    "no key": (lambda: fanin.jax.normal()(7, (3,)), "invalid PRNG key data"),
    "vector": (
        lambda: fanin.jax.he_normal()(KEY, (3,)),
        r"shape \(3,\) has 1 axes, which does not say its fans: pass in_axis and out_axis",
    ),
    "axis": (
        lambda: fanin.jax.he_normal(in_axis=2)(KEY, (3, 4)),
        r"in_axis must be an axis of shape \(3, 4\), got 2",
    ),
    "axis text": (lambda: fanin.jax.he_normal(in_axis="io"), "in_axis must be an axis or a seq"),
    "shape": (lambda: fanin.jax.normal()(KEY, (3, -1)), "must be at least 0, got -1"),
    "scale": (lambda: fanin.jax.uniform(-1.0), "scale must be finite and at least 0, got -1.0"),
    "stddev": (lambda: fanin.jax.normal("0.1"), "stddev must be a real number, got '0.1'"),
    "traced stddev": (
        lambda: jax.jit(lambda std: fanin.jax.normal(std)(KEY, (3,)))(1.0),
        "stddev must be known while JAX traces",
    ),
    "bounds": (lambda: fanin.jax.truncated_normal(1.0, None, 2, 1), "low must be below high"),
    "mode": (
        lambda: fanin.jax.variance_scaling(1.0, "fan_inn", "normal"),
        "unknown mode 'fan_inn'; did you mean 'fan_in'",
    ),
    "distribution": (
        lambda: fanin.jax.variance_scaling(1.0, "fan_in", "gauss"),
        "unknown distribution 'gauss'",
    ),
    "one axis": (
        lambda: fanin.jax.orthogonal()(KEY, (3,)),
        r"orthogonal needs a shape of at least two axes, got \(3,\)",
    ),
    "column": (lambda: fanin.jax.orthogonal(1.0, 2)(KEY, (3, 3)), "column_axis must be an axis"),
    "no kernel": (
        lambda: fanin.jax.delta_orthogonal()(KEY, (3, 3)),
        r"delta_orthogonal needs a shape of 3 to 5 axes, got \(3, 3\)",
    ),
    "narrowing": (
        lambda: fanin.jax.delta_orthogonal()(KEY, (3, 5, 4)),
        "delta_orthogonal keeps the norm of its input only with as many outputs as inputs",
    ),
    "too wide": (
        lambda: jax.jit(lambda key: fanin.jax.normal(1e40)(key, (3,)))(KEY),
        "std",
    ),
    "sharding": (lambda: fanin.jax.normal()(KEY, (3,), None, "x"), "a sharding must be a jax.sh"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_without_jax_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("fanin.jax")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r'fanin\.jax needs JAX .*: pip install "fanin\[jax\]"'):
        importlib.import_module("fanin.jax")
