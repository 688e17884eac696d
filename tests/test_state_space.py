"""`mamba_a_log` and `mamba_dt_bias`: exact values, the law, moments, errors."""

import math

import mpmath
import numpy as np
import pytest
import scipy.stats
import torch
import transformers

import distribution_checks
import fanin
import reference
from fanin import _core
from fanin.initializers import MambaALog, MambaDtBias, parse

NAME = "backbone.layers.0.mixer.dt_proj.bias"
STEPS = [(0.001, 0.1, 1e-4), (0.001, 0.1, 0.01), (0.05, 60.0, 0.0), (1e-30, 1e30, 1e-20)]


@mpmath.workdps(40)
def inverse_softplus(step):
    return mpmath.log(mpmath.expm1(step))


@mpmath.workdps(40)
def exact_bias(u, low, high, floor):
    low, high = mpmath.mpf(low), mpmath.mpf(high)
    return inverse_softplus(max(low * (high / low) ** mpmath.mpf(u), floor))


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_bias_is_a_function_of_one_uniform(steps, dtype):
    u = reference.uniform(fanin.position(3, NAME), 200, 0.0, 1.0, dtype)
    bias = fanin.mamba_dt_bias(200, low=steps[0], high=steps[1], floor=steps[2], seed=3, name=NAME,
                               dtype=dtype)  # fmt: skip
    for value, uniform in zip(bias, u, strict=True):
        exact = exact_bias(float(uniform), *steps)
        # The exponent's own rounding, up to ln(1e30), is that of the step's last digits.
        unit = 2.0**-52 if dtype == "float64" else 2.0**-24
        scale = 70 if dtype == "float64" else 1
        assert abs(mpmath.mpf(float(value)) - exact) <= scale * unit * max(1, abs(exact))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_biases_are_the_float32_ones_rounded(dtype):
    wide = fanin.mamba_dt_bias(1001, seed=5, name=NAME)
    narrow = fanin.mamba_dt_bias(1001, seed=5, name=NAME, dtype=dtype)
    assert np.array_equal(narrow, wide.astype(reference.DTYPES[dtype]))
    part = fanin.mamba_dt_bias(
        1001, region=(slice(37, 600),), seed=5, name=NAME, dtype=dtype, threads=3
    )
    assert part.tobytes() == narrow[37:600].tobytes()


def test_the_law_of_the_steps():
    values = fanin.mamba_dt_bias(2**20, low=0.02, high=4.0, floor=0, seed=1, name=NAME)
    steps = np.logaddexp(0.0, values.astype(np.float64))
    law = distribution_checks.uniform(math.log(0.02) - 1e-6, math.log(4.0) + 1e-6)
    distribution_checks.check_law(np.log(steps), law)


@pytest.mark.parametrize("steps", [(0.001, 0.1, 1e-4), (0.01, 3.0, 0.05)])
def test_the_law_is_that_of_transformers(steps):
    low, high, floor = steps
    torch.manual_seed(0)
    config = transformers.MambaConfig(
        hidden_size=16, expand=1250, num_hidden_layers=1, vocab_size=8, state_size=5,
        time_step_min=low, time_step_max=high, time_step_floor=floor,
    )  # fmt: skip
    mixer = transformers.MambaModel(config).layers[0].mixer
    theirs = mixer.dt_proj.bias.detach().double().numpy()
    ours = fanin.mamba_dt_bias(20000, low=low, high=high, floor=floor, seed=0, name=NAME)
    assert scipy.stats.ks_2samp(ours.astype(np.float64), theirs).pvalue > 1e-4
    assert ours.min() == pytest.approx(theirs.min(), abs=1e-3)
    assert (ours == ours.min()).mean() == pytest.approx((theirs == theirs.min()).mean(), abs=0.015)
    np.testing.assert_allclose(
        mixer.A_log.detach().numpy(), fanin.mamba_a_log((20000, 5), seed=0), rtol=2e-7
    )


@pytest.mark.parametrize("steps", STEPS)
def test_moments(steps):
    low, high, floor = steps
    u = mpmath.linspace(0, 1, 21)
    kink = mpmath.log(max(mpmath.mpf(floor), low) / low) / mpmath.log(mpmath.mpf(high) / low)
    points = sorted([*u, kink])
    first, second = (
        mpmath.quad(lambda u, order=order: exact_bias(u, *steps) ** order, points)
        for order in (1, 2)
    )
    init = MambaDtBias(*steps)
    assert init.mean() == pytest.approx(float(first), rel=1e-11)
    assert init.standard_deviation() == pytest.approx(
        float(mpmath.sqrt(second - first**2)), rel=1e-10
    )


def test_one_step_is_a_constant():
    for init in (MambaDtBias(0.5, 0.5, 0), MambaDtBias(0.1, 0.2, 0.5)):
        values = init.fill(np.empty(100), seed=0)
        assert np.ptp(values) <= 1e-15
        assert values[0] == pytest.approx(math.log(math.expm1(0.5)), rel=1e-14)
        assert init.standard_deviation() == 0.0
        assert init.mean() == pytest.approx(values[0])


@pytest.mark.parametrize("dtype", reference.DTYPES)
def test_a_log_is_the_logarithm_rounded_to_float32_and_on(dtype):
    values = fanin.mamba_a_log((3, 300), seed=0, dtype=dtype)
    exact = [mpmath.log(n) for n in range(1, 301)]
    if dtype == "float64":
        expected = np.array([float(value) for value in exact])
        np.testing.assert_array_max_ulp(values[0], expected, 1)
    else:
        expected = np.array([np.float32(float(value)) for value in exact])
        assert np.array_equal(values[0], expected.astype(reference.DTYPES[dtype]))
    assert (values == values[0]).all()
    part = fanin.mamba_a_log((3, 300), region=(slice(1, 3), slice(7, 90)), seed=9, dtype=dtype)
    assert np.array_equal(part, values[1:, 7:90])
    strided = np.zeros((300, 3), values.dtype).T
    assert np.array_equal(MambaALog().fill(strided, seed=0), values)


def test_a_log_of_other_shapes():
    assert fanin.mamba_a_log((), seed=0) == 0
    assert fanin.mamba_a_log((2, 0), seed=0).shape == (2, 0)
    assert np.array_equal(fanin.mamba_a_log(4, seed=0), fanin.mamba_a_log((2, 4), seed=0)[1])
    logarithms = [math.log(n) for n in range(1, 17)]
    assert MambaALog().standard_deviation((9, 16)) == pytest.approx(np.std(logarithms), rel=1e-14)
    assert MambaALog().standard_deviation(()) == MambaALog().standard_deviation((3, 0)) == 0.0
    assert MambaALog().filler((5, 16), None, 1, "float32").draws == 0


def test_logarithm():
    for x in np.exp(np.random.default_rng(0).uniform(-700, 700, 1000)).tolist():
        exact = mpmath.log(x)
        assert abs(_core.logarithm(x) - exact) <= np.spacing(abs(float(exact))), x
    assert _core.logarithm(1.0) == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mamba_dt_bias(low=0)", "low must be from 1e-30 to 1e\\+30, got 0.0"),
        ("mamba_dt_bias(high=inf)", "high must be from 1e-30 to 1e\\+30, got inf"),
        ("mamba_dt_bias(floor=-1)", "floor must be from 0 to 1e\\+30, got -1.0"),
        ("mamba_dt_bias(low=1)", "low must not be above high, got low=1.0, high=0.1"),
        ("mamba_dt_bias(floor=nan)", "floor must be from 0 to 1e\\+30, got nan"),
        ("mamba_a_log(16)", "too many positional arguments"),
    ],
)
def test_errors(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
