"""The named functions: one signature, new arrays, regions, errors before anything is written."""

import inspect
import math
import typing

import numpy as np
import pytest

import fanin
import reference
from fanin.functions.keywords import ArrayOptions, FanOptions, LayoutOptions, sample
from fanin.initializers import TABLE
from table_examples import NEEDED, example, shape_for

NAMES = list(TABLE)
RANDOM = [
    name for name in NAMES if example(name).filler(shape_for(name, 2, 2), None, 1, "float32").draws
]


def call(function_name, *args, **kwargs):
    return getattr(fanin, function_name)(*args, **NEEDED.get(function_name, {}), **kwargs)


@pytest.mark.parametrize("name", NAMES)
def test_each_samples_its_initializer(name):
    shape = shape_for(name, 6, 5)
    values = call(name, shape, seed=1, name="w")
    assert type(values) is np.ndarray
    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    filled = example(name).fill(np.empty(shape, np.float32), seed=1, name="w")
    assert np.array_equal(values, filled)


@pytest.mark.parametrize("name", RANDOM)
def test_each_has_its_standard_deviation(name):
    shape = shape_for(name, 300, 500)
    values = call(name, shape, seed=2, dtype="float64")
    assert values.std() == pytest.approx(example(name).standard_deviation(shape), rel=0.01)


def test_aliases_are_the_same_functions():
    for alias, name in [("xavier", "glorot"), ("kaiming", "he")]:
        for distribution in ("uniform", "normal"):
            function = getattr(fanin, f"{name}_{distribution}")
            assert getattr(fanin, f"{alias}_{distribution}") is function
            assert TABLE[f"{alias}_{distribution}"] is TABLE[f"{name}_{distribution}"]


def test_the_shared_keywords_are_typed_once():
    shared = [*inspect.signature(sample).parameters][2:]
    assert sorted(typing.get_type_hints(FanOptions)) == sorted(shared)
    assert set(typing.get_type_hints(LayoutOptions)) == set(shared) - {"groups"}
    assert set(typing.get_type_hints(ArrayOptions)) == set(shared) - {"layout", "groups"}


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_every_keyword(name):
    function = getattr(fanin, name)
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        assert parameter.name in function.__doc__
        assert parameter.kind is not parameter.VAR_KEYWORD
    assert parameters["seed"].default is inspect.Parameter.empty
    assert "**options" not in function.__doc__


# Keywords


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_is_needed(name):
    with pytest.raises(TypeError, match="needs seed=, an integer from 0 to 2"):
        call(name, (3, 5))


def test_unknown_keywords():
    with pytest.raises(
        TypeError, match="unknown argument of he_normal 'sede'; did you mean 'seed'"
    ):
        fanin.he_normal((3, 5), sede=0)
    with pytest.raises(
        TypeError, match=r"unknown argument of normal 'layout'.*allowed: shape, mean"
    ):
        fanin.normal((3, 5), layout="oi", seed=0)
    with pytest.raises(TypeError, match="positional"):
        fanin.he_uniform((3, 5), math.sqrt(5), seed=0)


def test_the_shape_is_needed_without_out():
    with pytest.raises(TypeError, match="shape is needed where no out is given"):
        fanin.normal(seed=0)


@pytest.mark.parametrize(
    "dtype",
    [*reference.DTYPES, *reference.DTYPES.values(), np.float16, float],
    ids=repr,
)
def test_dtypes(dtype):
    values = fanin.normal((3, 5), seed=0, dtype=dtype)
    expected = reference.DTYPES[dtype] if dtype in reference.DTYPES else np.dtype(dtype)
    assert values.dtype == expected


def test_gains_by_name_number_and_function():
    a = fanin.he_normal((4, 4), gain="relu", seed=0)
    assert np.array_equal(a, fanin.he_normal((4, 4), gain=math.sqrt(2), seed=0))
    assert np.array_equal(a, fanin.he_normal((4, 4), seed=0))
    b = fanin.he_normal((4, 4), gain=lambda z: np.maximum(z, 0.0), seed=0)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_torch_linear_is_bounded_by_its_fan():
    values = fanin.torch_linear((300, 25), seed=0)
    assert 0.19 < abs(values).max() <= 0.2


def test_shapes():
    assert fanin.normal((), seed=0).shape == ()
    assert fanin.normal(4, seed=0).shape == (4,)
    assert fanin.normal([2, 3], seed=0).shape == (2, 3)
    assert fanin.normal((1,) * 20, seed=0).shape == (1,) * 20
    assert fanin.lecun_normal((7,), layout="i", seed=0).shape == (7,)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0)])
def test_no_elements_are_no_work(name, size):
    shape = shape_for(name, *size)
    values = call(name, shape, seed=0)
    assert values.shape == shape


# Regions


@pytest.mark.parametrize("name", NAMES)
def test_a_region_has_the_values_and_fans_of_the_whole(name):
    shape = shape_for(name, 16, 4096)
    whole = call(name, shape, seed=7, name="w")
    quarter, rest = shape[0] // 4, (slice(None),) * (len(shape) - 1)
    regions = [(slice(quarter * i, quarter * (i + 1)), *rest) for i in range(4)]
    parts = [call(name, shape, seed=7, name="w", region=region) for region in regions]
    assert np.array_equal(np.concatenate(parts), whole)


def test_regions_may_be_empty_and_open():
    whole = fanin.normal((5, 6), seed=0)
    region = (slice(np.int64(2), None), slice(None, 3, 1))
    assert np.array_equal(fanin.normal((5, 6), seed=0, region=region), whole[region])
    assert fanin.normal((5, 6), seed=0, region=(slice(5, 5), slice(1, 2))).shape == (0, 1)
    assert fanin.normal((), seed=0, region=()).shape == ()


@pytest.mark.parametrize(
    ("region", "error", "message"),
    [
        ((slice(0, 2),), ValueError, "a slice for each of the 2 axes of shape .*, got 1"),
        ((slice(0, 2),) * 3, ValueError, "a slice for each of the 2 axes of shape .*, got 3"),
        ((slice(0, 6), slice(None)), ValueError, r"region\[0\] must lie within 0:5, got 0:6"),
        ((slice(3, 2), slice(None)), ValueError, r"region\[0\] must lie within 0:5, got 3:2"),
        ((slice(None), slice(7, None)), ValueError, r"region\[1\] must lie within 0:6, got 7:6"),
        ((slice(-1, None), slice(None)), ValueError, r"start of region\[0\] must be at least 0"),
        ((slice(0, -1), slice(None)), ValueError, r"the stop of region\[0\] must be at least 0"),
        ((slice(0, 4, 2), slice(None)), ValueError, r"region\[0\] must have step 1, got slice"),
        ((slice(4, 0, -1), slice(None)), ValueError, r"region\[0\] must have step 1, got slice"),
        ((slice(0, 2.0), slice(None)), TypeError, r"the stop of region\[0\] must be an integer"),
        ((slice(0, True), slice(None)), TypeError, r"the stop of region\[0\] must be an integer"),
        (slice(0, 2), TypeError, "region must be a tuple of slices, got slice"),
        ([slice(0, 2), slice(0, 2)], TypeError, "region must be a tuple of slices, got"),
        ((0, slice(None)), TypeError, "region must be a tuple of slices, got"),
        ((..., slice(None)), TypeError, "region must be a tuple of slices, got"),
    ],
)
def test_bad_regions(region, error, message):
    with pytest.raises(error, match=message):
        fanin.normal((5, 6), seed=0, region=region)


def test_a_region_needs_the_shape_of_the_whole():
    out = np.empty((2, 6), np.float32)
    with pytest.raises(ValueError, match="region needs shape=, the shape of the whole matrix"):
        fanin.normal(out=out, seed=0, region=(slice(0, 2), slice(None)))


# Nothing is written when an argument is not allowed


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"seed": -1}, ValueError, "seed must be from 0 to"),
        ({"seed": 2**64}, ValueError, "seed must be from 0 to"),
        ({"seed": 0.0}, TypeError, "seed must be an integer"),
        ({"seed": True}, TypeError, "seed must be an integer"),
        ({"name": 3}, TypeError, "name must be a string, got 3"),
        ({"shape": (6, 5)}, ValueError, r"out has shape \(5, 6\), but shape asks for \(6, 5\)"),
        ({"shape": (30,)}, ValueError, r"out has shape \(5, 6\), but shape asks for \(30,\)"),
        (
            {"shape": (9, 9), "region": (slice(0, 6), slice(0, 5))},
            ValueError,
            r"out has shape \(5, 6\), but region asks for \(6, 5\)",
        ),
        ({"shape": (5, -6)}, ValueError, "must be at least 0, got -6"),
        ({"dtype": "float64"}, ValueError, "out has dtype float32, but dtype asks for float64"),
        ({"dtype": "int8"}, ValueError, "unknown dtype 'int8'"),
        ({"threads": 0}, ValueError, "threads must be from 1 to 4096, got 0"),
        ({"threads": 1.5}, TypeError, "threads must be an integer, got 1.5"),
        ({"layout": "io o"}, ValueError, "contains ' '"),
        ({"layout": "oik"}, ValueError, "names 3 axes"),
        ({"layout": ["o", "i"]}, TypeError, "layout must be a string"),
        ({"groups": [1]}, TypeError, r"groups must be an integer, got \[1\]"),
        ({"groups": True}, TypeError, "groups must be an integer, got True"),
        ({"groups": 4}, ValueError, "groups must divide the 5 outputs"),
        ({"gain": -1}, ValueError, "gain must be finite and at least 0, got -1"),
        ({"gain": 1e60}, ValueError, "too large for float32"),
        ({"mode": "fan"}, ValueError, "unknown mode 'fan'"),
        ({"truncated": "yes"}, TypeError, "truncated must be True or False, got 'yes'"),
    ],
)
def test_errors_leave_out_untouched(arguments, error, message):
    out = np.full((5, 6), 7, np.float32)
    with pytest.raises(error, match=message):
        fanin.he_normal(**{"out": out, "seed": 0} | arguments)
    assert (out == 7).all()


def test_out_is_returned_and_may_repeat_shape_and_dtype():
    out = np.empty((5, 6), np.float16)
    assert fanin.he_normal((5, 6), seed=0, dtype="float16", out=out) is out
    assert fanin.he_normal(seed=0, out=out) is out


def test_a_layout_is_checked_where_no_fans_are_needed():
    init = TABLE["normal"]()
    with pytest.raises(ValueError, match="names 3 axes"):
        init.fill(np.empty((3, 5)), seed=0, layout="oik")
    init.fill(np.empty((3, 5)), seed=0, layout="io")
