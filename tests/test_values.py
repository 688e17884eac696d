"""Values against the known answers and the reference: bit for bit, or within a stated tolerance."""

import math

import numpy as np
import pytest

import fanin
import reference
from fanin import initializers

ANSWERS = reference.KNOWN_ANSWERS
NARROW = [dtype for dtype in reference.DTYPES if dtype not in ("float64", "float32")]
UNIFORMS = [
    (answer, dtype)
    for answer in ANSWERS["uniform"]
    for dtype in reference.DTYPES
    if dtype in answer
]


def interval(answer):
    return f"[{answer['low']},{answer['high']}]"


def same_bits(a, b):
    return np.array_equal(reference.bits(a), reference.bits(b))


def vector(init, answer, count, dtype):
    """Elements `start` ... of the vector that a known answer describes."""
    start = answer["start"]
    out = np.empty(count, reference.DTYPES[dtype])
    region = (slice(start, start + count),)
    return init.fill(
        out, seed=answer["seed"], name=answer["name"], shape=start + count, region=region
    )


@pytest.mark.parametrize(
    ("answer", "dtype"), UNIFORMS, ids=lambda x: x if isinstance(x, str) else interval(x)
)
def test_uniform_has_the_known_bits(answer, dtype):
    init = initializers.Uniform(answer["low"], answer["high"])
    expected = [int(bits, 16) for bits in answer[dtype]]
    assert reference.bits(vector(init, answer, len(expected), dtype)).tolist() == expected


@pytest.mark.parametrize("answer", ANSWERS["normal"], ids=lambda a: f"{a['name']}-{a['rule']}")
def test_normal_has_the_known_values(answer):
    z = np.array(answer["z"], dtype=np.float64)
    values = vector(initializers.Normal(), answer, len(z), answer["rule"])
    np.testing.assert_array_less(error_in_tolerances(values, z), 1)


@pytest.mark.parametrize(
    "answer", ANSWERS["truncated_normal"], ids=lambda a: f"{interval(a)}-{a['rule']}"
)
def test_truncated_normal_has_the_known_values(answer):
    z = np.array(answer["z"], dtype=np.float64)
    low, high = float(answer["low"]), float(answer["high"])
    init = initializers.TruncatedNormal(low=low, high=high)
    values = vector(init, answer, len(z), answer["rule"])
    # The exact value may lie outside of the values that the dtype has in the interval.
    z = np.maximum(z, reference.neighbour(values.dtype, low, up=True))
    z = np.minimum(z, reference.neighbour(values.dtype, high, up=False))
    np.testing.assert_array_less(error_in_tolerances(values, z), 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_follows_the_formula(dtype):
    start = fanin.position(11, "n")
    first = 10**12 + 1
    values = fanin.normal(
        2 * 10**12, seed=11, name="n", dtype=dtype, region=(slice(first, first + 300),)
    )
    z = np.array([float(reference.normal(start, first + i, dtype)) for i in range(300)])
    np.testing.assert_array_less(error_in_tolerances(values, z), 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("low", "high"),
    [(-2, 2), (-1, 3), (-0.001, 0.002), (2, 2.5), (-math.inf, -5), (9, math.inf), (13, 14)],
)
def test_truncated_normal_follows_the_formula(low, high, dtype):
    start = fanin.position(12, "t")
    values = fanin.truncated_normal(60, low=low, high=high, seed=12, name="t", dtype=dtype)
    z = np.array([float(reference.truncated_normal(start, i, low, high, dtype)) for i in range(60)])
    np.testing.assert_array_less(error_in_tolerances(values, z), 1)


@pytest.mark.parametrize("dtype", reference.DTYPES)
@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-1, 1), (-0.05, 0.05), (2, 3), (-1e-6, 3e4), (0.1, 0.11), (-7, -6.5)]
)
def test_uniform_is_the_reference(low, high, dtype):
    count = 1000 if dtype == "float64" else 20_000
    values = fanin.uniform(count, low=low, high=high, seed=5, name="u", dtype=dtype)
    expected = reference.uniform(fanin.position(5, "u"), count, low, high, dtype)
    assert same_bits(values, expected)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.02), (1.0, 0.5), (-300.0, 1e-3), (1e-3, 7e4)])
def test_float32_normal_is_one_fused_multiply_add(mean, std):
    z = fanin.normal(5000, seed=6, name="n")
    values = fanin.normal(5000, mean=mean, std=std, seed=6, name="n")
    assert same_bits(values, reference.fma32(np.float32(std), z, np.float32(mean)))


def test_float64_normal_is_one_fused_multiply_add():
    z = fanin.normal(1000, seed=6, name="n", dtype="float64")
    values = fanin.normal(1000, mean=0.3, std=0.7, seed=6, name="n", dtype="float64")
    assert values.tolist() == [reference.fma64(0.7, x, 0.3) for x in z.tolist()]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("std", [1.0, 0.02, 7e4])
def test_narrow_normals_are_the_float32_value_rounded_once(dtype, std):
    wide = fanin.normal(20_000, std=std, seed=6, name="n")
    values = fanin.normal(20_000, std=std, seed=6, name="n", dtype=dtype)
    assert same_bits(values, reference.round_to(wide, dtype))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("low", "high"), [(-2, 2), (0.31, 5), (-math.inf, -0.7)])
def test_narrow_truncated_normals_are_rounded_and_clamped(dtype, low, high):
    wide = fanin.truncated_normal(20_000, low=low, high=high, seed=6, name="n")
    values = fanin.truncated_normal(20_000, low=low, high=high, seed=6, name="n", dtype=dtype)
    rounded = reference.round_to(wide, dtype)
    assert same_bits(values, reference.clamp(rounded, low, high, open_above=False))


@pytest.mark.parametrize("dtype", reference.DTYPES)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3.7, 1e-3, 1e5, math.inf, -math.inf])
def test_constants_are_rounded_once(value, dtype):
    values = fanin.constant(5, value=value, seed=0, dtype=dtype)
    single = np.full(5, value, np.float64 if dtype == "float64" else np.float32)
    assert same_bits(values, reference.round_to(single, dtype))


@pytest.mark.parametrize("dtype", reference.DTYPES)
@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal"])
def test_an_element_depends_on_its_index_only(name, dtype):
    """Any cut of the matrix, in any memory order, has the bits of that part of the whole."""
    function = getattr(fanin, name)
    shape = (5, 7, 9)
    whole = function(shape, seed=3, name="m", dtype=dtype)
    rng = np.random.default_rng(0)
    for _ in range(40):
        cut = np.sort([rng.integers(0, size + 1, 2) for size in shape], axis=1)
        region = tuple(slice(int(a), int(b)) for a, b in cut)
        order = rng.permutation(3)
        sizes = [int(b - a) for a, b in cut]
        memory = np.empty([sizes[axis] for axis in order], reference.DTYPES[dtype])
        out = memory.transpose(np.argsort(order))[::-1][::-1]
        part = function(shape, seed=3, name="m", dtype=dtype, out=out, region=region)
        assert part is out
        assert same_bits(part, np.ascontiguousarray(whole[region])) or part.size == 0


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal"])
def test_threads_never_change_bits(name, threads):
    function = getattr(fanin, name)
    assert same_bits(
        function((300, 1001), seed=4, name="m", threads=threads),
        function((300, 1001), seed=4, name="m", threads=1),
    )


def test_a_region_of_a_matrix_larger_than_memory():
    shape = (2**20, 2**40)
    row, column = 2**19 + 3, 2**39 + 5
    region = (slice(row, row + 2), slice(column, column + 3))
    values = fanin.uniform(shape, seed=8, name="huge", region=region)
    start = fanin.position(8, "huge")
    for i in range(2):
        expected = reference.uniform(
            start, 3, 0.0, 1.0, "float32", start=(row + i) * 2**40 + column
        )
        assert same_bits(values[i], expected)


def test_names_and_seeds_give_different_values():
    draws = [
        fanin.normal(64, seed=seed, name=name) for seed in (0, 1, 2**63) for name in ("a", "b", "")
    ]
    assert len({values.tobytes() for values in draws}) == 9


def test_no_call_changes_another():
    first = fanin.normal(9, seed=0, name="a")
    fanin.uniform(1001, seed=0, name="b")
    np.random.default_rng(0).normal()
    assert same_bits(first, fanin.normal(9, seed=0, name="a"))


def error_in_tolerances(values, exact):
    """Error over what is allowed: 4 ULP of float32 or 2**-24; 8 ULP of float64 or 1e-15."""
    ulps, absolute = (8, 1e-15) if values.dtype == np.float64 else (4, 2.0**-24)
    tolerance = np.maximum(ulps * np.spacing(np.abs(exact).astype(values.dtype)), absolute)
    return np.abs(values.astype(np.float64) - exact) / tolerance
