"""The truncated normal's parameters: bounds, the parent that keeps the std, warnings."""

import math

import numpy as np
import pytest

import fanin
import reference
from fanin.initializers import Normal, TruncatedNormal


@pytest.mark.parametrize("answer", reference.KNOWN_ANSWERS["truncated_std"], ids=str)
def test_truncated_std(answer):
    init = TruncatedNormal(low=float(answer["low"]), high=float(answer["high"]))
    assert init.standard_deviation() == pytest.approx(float(answer["std"]), rel=1e-15)


@pytest.mark.parametrize(("low", "high"), [(-2, 2), (-1, 3), (0, math.inf), (2, 5)])
def test_keep_std_in_sigma_widens_the_parent(low, high):
    cut = TruncatedNormal(low=low, high=high).standard_deviation()
    init = TruncatedNormal(std=0.02, low=low, high=high, keep_std=True)
    assert init.parent_std() == pytest.approx(0.02 / cut, rel=1e-15)
    assert init.standard_deviation() == 0.02


@pytest.mark.parametrize(
    ("mean", "std", "low", "high"),
    [
        (0.0, 0.5, -1, 1),
        (0.0, 0.57, -1, 1),
        (0.3, 0.1, 0, 1),
        (0.0, 0.02, -0.1, 0.01),
        (0.0, 2.0, 1, math.inf),
        (-5.0, 0.2, 0, 3),
        (0.0, 1.0, -math.inf, math.inf),
    ],
)
def test_keep_std_in_absolute_bounds_solves_for_the_parent(mean, std, low, high):
    kept = TruncatedNormal(mean, std, low, high, "absolute", keep_std=True)
    assert kept.standard_deviation() == std
    cut = TruncatedNormal(mean, kept.parent_std(), low, high, "absolute")
    assert cut.standard_deviation() == pytest.approx(std, rel=1e-9)


def test_keep_std_is_measured():
    kept = {"bounds": "absolute", "keep_std": True}
    values = fanin.truncated_normal(
        10**6, mean=0.1, std=0.3, low=-0.5, high=0.6, seed=0, dtype="float64", **kept
    )
    assert values.std() == pytest.approx(0.3, rel=3e-3)
    assert values.min() >= -0.5
    assert values.max() <= 0.6


@pytest.mark.parametrize("std", [1 / math.sqrt(3), 0.6, 10])
def test_keep_std_beyond_the_uniform_distribution(std):
    message = r"cannot be kept within \[-1.0, 1.0\]: it must be below .* 0.577350269"
    with pytest.raises(ValueError, match=message):
        TruncatedNormal(0, std, -1, 1, "absolute", keep_std=True)


def test_keep_std_next_to_the_uniform_distribution():
    std = math.nextafter(1 / math.sqrt(3), 0)
    kept = TruncatedNormal(0, std, -1, 1, "absolute", keep_std=True)
    assert kept.parent_std() > 1e3


def test_keep_std_of_a_tail_out_of_reach():
    init = TruncatedNormal(0, 1, 1e20, math.inf, "absolute", keep_std=True)
    with pytest.raises(ValueError, match=r"std 1.0 cannot be kept: no normal .* 1e\+20 and inf"):
        init.parent_std()


def test_absolute_bounds_in_sigma():
    absolute = TruncatedNormal(1.0, 0.5, 0.0, 2.0, "absolute")
    sigma = TruncatedNormal(1.0, 0.5, -2.0, 2.0)
    assert absolute.standard_deviation() == sigma.standard_deviation()
    a, b = (init.fill(np.empty(99), seed=0) for init in (absolute, sigma))
    assert np.array_equal(a, b)


def test_bounds_that_cut_nothing_warn():
    with pytest.warns(UserWarning, match=r"\[-2.0, 2.0\] cut nothing: .* 8 standard deviations"):
        TruncatedNormal(std=0.02, low=-2, high=2, bounds="absolute")
    with pytest.warns(UserWarning, match="cut nothing"):
        TruncatedNormal(std=0.1, low=-math.inf, high=2, bounds="absolute")


@pytest.mark.parametrize(
    "arguments",
    [
        {"low": -2, "high": 2, "bounds": "absolute", "std": 0.3},
        {"low": -0.1, "high": 2, "bounds": "absolute", "std": 0.02},
        {"low": -math.inf, "high": math.inf, "bounds": "absolute"},
        {"low": -1000, "high": 1000},
    ],
)
def test_other_bounds_do_not_warn(arguments):
    TruncatedNormal(**arguments)


def test_std_0_is_the_mean():
    for init in (
        Normal(0.25, 0.0),
        TruncatedNormal(0.25, 0.0, 1, 2),
        TruncatedNormal(0.25, 0.0, keep_std=True),
        TruncatedNormal(0.25, 0.0, 0, 1, "absolute"),
    ):
        assert init.standard_deviation() == 0
        assert init.fill(np.empty(5, np.float32), seed=0).tolist() == [0.25] * 5
    with pytest.raises(ValueError, match=r"std 0 needs a mean within the bounds \[1.0, 2.0\]"):
        TruncatedNormal(0.25, 0.0, 1, 2, "absolute")


@pytest.mark.parametrize(
    ("low", "high"), [(38, math.inf), (-math.inf, -37.5), (1000, 1001), (40, 41)]
)
def test_intervals_too_far_from_the_mean(low, high):
    with pytest.raises(ValueError, match="more than 37 sigma from the mean"):
        TruncatedNormal(low=low, high=high).filler((3,), None, 1, "float32")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bounds": "abs"}, ValueError, "unknown bounds 'abs'; did you mean 'absolute'"),
        ({"bounds": 1}, TypeError, "bounds must be a string, got 1"),
        ({"bounds": "absolute"}, ValueError, "need both low and high, got low=None, high=None"),
        ({"bounds": "absolute", "low": -1}, ValueError, "need both low and high, got low=-1, high"),
        ({"keep_std": 1}, TypeError, "keep_std must be True or False, got 1"),
        ({"low": "2"}, TypeError, "low must be a real number, got '2'"),
    ],
)
def test_truncation_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        TruncatedNormal(**arguments)
