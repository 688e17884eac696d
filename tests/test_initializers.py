"""Initializer values: what they resolve to, their moments, text, errors."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
import torch

import fanin
from fanin import initializers
from fanin.initializers import (
    TABLE,
    Constant,
    Elementwise,
    MambaDtBias,
    Normal,
    TorchLinear,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    parse,
)
from table_examples import example, shape_for

TRUNCATED_STD = 0.87962566103423978
ELEMENTWISE = [name for name in TABLE if isinstance(example(name), Elementwise)]


# Resolving


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_each_resolves_to_concrete_numbers(name):
    resolved = example(name).resolve((30, 50))
    assert isinstance(resolved, Constant | Uniform | Normal | TruncatedNormal | MambaDtBias)
    assert resolved.resolve((1, 1)) == resolved


@pytest.mark.parametrize(
    ("text", "std"),
    [
        ("glorot_uniform", math.sqrt(2 / 80)),
        ("glorot_normal(gain=tanh)", 5 / 3 * math.sqrt(2 / 80)),
        ("glorot_normal(truncated=True)", math.sqrt(2 / 80)),
        ("he_normal", math.sqrt(2 / 50)),
        ("he_normal(mode=fan_out)", math.sqrt(2 / 30)),
        ("he_uniform(gain=linear, mode=fan_avg)", math.sqrt(1 / 40)),
        ("he_normal(gain=gelu, truncated=True)", 1.5335304411955352 / math.sqrt(50)),
        ("lecun_normal", math.sqrt(1 / 50)),
        ("lecun_uniform", math.sqrt(1 / 50)),
        ("torch_linear", 1 / math.sqrt(150)),
        ("variance_scaling(scale=3, mode=fan_geo_avg)", math.sqrt(3 / math.sqrt(1500))),
        ("gpt2_residual(12)", 0.02 / math.sqrt(24)),
        ("gpt2_residual(n_layer=6, std=0.1, branches=1)", 0.1 / math.sqrt(6)),
        ("uniform(low=-1, high=2)", 3 / math.sqrt(12)),
        ("normal(mean=3, std=0.5)", 0.5),
        ("truncated_normal(std=0.02)", 0.02 * TRUNCATED_STD),
        ("truncated_normal(std=0.02, keep_std=True)", 0.02),
        ("truncated_normal(std=2, low=-inf, high=inf)", 2),
        ("zeros", 0),
        ("constant(7)", 0),
        ("orthogonal(gain=3)", 3 / math.sqrt(50)),
        ("identity(gain=2)", 2 * math.sqrt(1 / 50 - 1 / 50**2)),
        ("sparse(0.9, std=0.5)", 0.5 * math.sqrt(0.1)),
    ],
)
def test_standard_deviations(text, std):
    init = parse(text)
    assert init.standard_deviation((30, 50)) == pytest.approx(std, rel=1e-15)
    if isinstance(init, Elementwise):
        assert init.resolve((30, 50)).standard_deviation((30, 50)) == pytest.approx(std, rel=1e-15)


def test_fans_come_from_layout_and_groups():
    init = parse("lecun_normal")
    assert init.standard_deviation((300, 10), "io") == 1 / math.sqrt(300)
    assert init.standard_deviation((16, 64, 4, 4), "iokk") == 1 / math.sqrt(256)
    assert init.standard_deviation((8, 2, 100), "boi") == 1 / math.sqrt(100)
    out = parse("he_normal(mode=fan_out)")
    assert out.standard_deviation((4, 1, 3, 3), groups=4) == math.sqrt(2) / math.sqrt(9)


def test_one_part_of_a_fused_matrix_has_its_own_fans():
    init = parse("glorot_normal")
    assert init.standard_deviation((64, 64)) == pytest.approx(math.sqrt(2 / 128), rel=1e-15)


def test_uniform_limits():
    resolved = parse("he_uniform").resolve((3, 50))
    assert resolved == Uniform(-resolved.high, resolved.high)
    assert resolved.high == math.sqrt(3) * (math.sqrt(2) / math.sqrt(50))
    assert TorchLinear().resolve((3, 50)) == Uniform(-1 / math.sqrt(50), 1 / math.sqrt(50))


def test_the_gain_survives_its_square():
    for name in ("relu", "tanh", "gelu", "silu", "mish", "selu", "leaky_relu"):
        init = TABLE["he_normal"](gain=name)
        assert init.resolve((1, 1)).std == fanin.gain(name)


@pytest.mark.parametrize(
    ("gain", "scale"), [("relu", 2.0), ("linear", 1.0), ("selu", 0.5625), (0.1, 0.01), (0, 0.0)]
)
def test_the_scale_is_the_shortest_decimal(gain, scale):
    assert TABLE["he_normal"](gain=gain).scale == scale


def test_gain_0_and_no_elements_give_zeros():
    assert parse("he_normal(gain=0)").resolve((3, 5)) == Constant(0.0)
    for text in ("he_normal", "glorot_uniform", "torch_linear", "lecun_normal(truncated=True)"):
        assert parse(text).resolve((0, 0)) == Constant(0.0)
        assert parse(text).standard_deviation((0, 0)) == 0


@pytest.mark.parametrize("name", TABLE)
def test_fans_and_matrices_need_two_axes_or_a_layout(name):
    init = example(name)
    if init.uses_layout:
        for shape in [(), (7,)]:
            with pytest.raises(ValueError, match="pass a layout"):
                init.standard_deviation(shape)
        init.standard_deviation(shape_for(name, 7, 1), "oik"[: len(shape_for(name, 7, 1))])
    else:
        init.standard_deviation(())


# Checks


@pytest.mark.parametrize("std", [-1, -1e-300, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("make", [Normal, TruncatedNormal, TABLE["gpt2_residual"]])
def test_std_is_finite_and_not_negative(make, std):
    needed = {"n_layer": 2} if make is TABLE["gpt2_residual"] else {}
    with pytest.raises(ValueError, match=f"std must be finite and at least 0, got {float(std)!r}"):
        make(std=std, **needed)


@pytest.mark.parametrize("value", [True, "0.02", 1j, None, [0.02], np.True_, np.complex64(1)])
def test_std_is_a_real_number(value):
    for make in (Normal, TruncatedNormal):
        with pytest.raises(TypeError, match="std must be a real number, got"):
            make(std=value)


@pytest.mark.parametrize(
    "value", [2, np.float16(2), np.int8(2), np.array(2.0), torch.tensor(2.0), np.longdouble(2)]
)
def test_numbers_may_come_from_numpy_and_torch(value):
    init = Normal(std=value)
    assert init == Normal(std=2.0)
    assert type(init.std) is float


@pytest.mark.parametrize("mean", [math.nan, math.inf, -math.inf])
def test_mean_is_finite(mean):
    for make in (Normal, TruncatedNormal):
        with pytest.raises(ValueError, match=f"mean must be finite, got {mean!r}"):
            make(mean=mean)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, -2), (0, -1e-300)])
def test_low_is_below_high(low, high):
    message = f"low must be below high, got low={float(low)!r}, high={float(high)!r}"
    for make in (Uniform, TruncatedNormal):
        with pytest.raises(ValueError, match=message):
            make(low=low, high=high)


def test_bounds_are_no_nan():
    for low, high in [(math.nan, 1), (0, math.nan)]:
        with pytest.raises(ValueError, match=r"(low|high) must be finite, got nan"):
            Uniform(low, high)
        with pytest.raises(ValueError, match=r"low must be below high, got .*nan"):
            TruncatedNormal(low=low, high=high)
    with pytest.raises(ValueError, match="high must be finite, got inf"):
        Uniform(0, math.inf)
    with pytest.raises(ValueError, match="value must be a number, got nan"):
        Constant(math.nan)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VarianceScaling(-1), "scale must be finite and at least 0, got -1.0"),
        (lambda: VarianceScaling(math.inf), "scale must be finite and at least 0, got inf"),
        (
            lambda: VarianceScaling(1, "fan"),
            "unknown mode 'fan'; .*allowed: fan_in, fan_out, fan_a",
        ),
        (
            lambda: VarianceScaling(1, "fan_in", "gauss"),
            "unknown distribution 'gauss'.*allowed: normal, uniform, truncated_normal",
        ),
        (lambda: TABLE["he_normal"](gain=1e-170), "gain must be 0 or from 1e-150 to 1e150"),
        (lambda: TABLE["he_normal"](gain=1e170), "gain must be 0 or from 1e-150 to 1e150"),
        (lambda: TABLE["gpt2_residual"](12, branches=0), "branches must be at least 1, got 0"),
    ],
)
def test_scaling_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("init", "dtype", "message"),
    [
        (Normal(std=1e39), "float32", r"std = 1e\+39 is too large for float32"),
        (Normal(std=1e-50), "bfloat16", "std = 1e-50 is too small for float32"),
        (Normal(mean=1e-50), "float16", "mean = 1e-50 is too small for float32"),
        (Uniform(0.0, 1e39), "float8_e5m2", r"= 1e\+39 is too large for float32"),
        (Uniform(-1.7e308, 1.7e308), "float64", "is too large for float64"),
        (Uniform(1.01, 1.02), "float8_e4m3fn", r"no float8_e4m3fn value lies in \[1.01, 1.02\)"),
        (Constant(1e39), "float32", r"value = 1e\+39 is too large for float32"),
    ],
)
def test_parameters_that_a_dtype_cannot_hold(init, dtype, message):
    with pytest.raises(ValueError, match=message):
        init.filler((3,), None, 1, dtype)


# The values as values


@pytest.mark.parametrize("name", TABLE)
def test_values_are_frozen_and_replaceable(name):
    init = example(name)
    for field in dataclasses.fields(init):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(init, field.name, 0)
    assert dataclasses.replace(init) == init
    assert init.text_name in TABLE


@pytest.mark.parametrize("name", TABLE)
def test_the_functions_have_the_arguments_of_the_table(name):
    own = inspect.signature(TABLE[name]).parameters.values()
    parameters = inspect.signature(getattr(fanin, name)).parameters
    arguments = [(p.name, p.default) for p in own]
    assert [(key, parameters[key].default) for key, _ in arguments] == arguments
    shared = {"shape", "seed", "name", "dtype", "out", "region", "threads"}
    shared |= {"layout"} if example(name).uses_layout else set()
    shared |= {"groups"} if example(name).uses_fans else set()
    assert set(parameters) - {key for key, _ in arguments} == shared


def test_one_value_serves_many_names():
    init = initializers.Normal(std=0.02)
    a, b = (init.fill(np.empty((4, 4)), seed=0, name=name) for name in "ab")
    assert not np.array_equal(a, b)
