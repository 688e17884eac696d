"""Distributions of many elements: laws, moments, tails, independence, rounding, truncation."""

import math

import numpy as np
import pytest

import distribution_checks as checks
from fanin.initializers import Normal, TruncatedNormal, Uniform
from fanin.output import numpy_dtype

COUNT = 10_000_000
NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def sample(init, dtype="float32", count=COUNT, name="w", seed=0):
    return init.fill(np.empty(count, numpy_dtype(dtype)), seed=seed, name=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype):
    checks.check_law(sample(Normal(), dtype), checks.normal())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(dtype):
    checks.check_law(sample(Uniform(-1.0, 3.0), dtype), checks.uniform(-1.0, 3.0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("low", "high"), [(-2.0, 2.0), (0.0, math.inf), (-1.0, 3.0), (2.0, 2.5), (5.0, math.inf)]
)
def test_truncated_normal(low, high, dtype):
    values = sample(TruncatedNormal(low=low, high=high), dtype, COUNT // 2)
    checks.check_law(values, checks.truncated_normal(low, high))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("low", "high"), [(12.0, math.inf), (-math.inf, -20.0), (30.0, 30.01)])
def test_far_truncated_normal(low, high, dtype):
    values = sample(TruncatedNormal(low=low, high=high), dtype, COUNT // 10)
    law = checks.truncated_normal(low, high)
    if dtype == "float64":
        checks.check_law(values, law)
    else:  # which has too few values there for narrow bins
        checks.check_moments(values.astype(np.float64), law)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_of_1000_sigma(dtype):
    """The plain normal, without atoms at the bounds or at the ends that are reached."""
    values = sample(TruncatedNormal(std=1e-3, low=-1000, high=1000), dtype)
    checks.check_law(values, checks.normal(1e-3))
    extreme = values[np.abs(values) > 4e-3]
    assert np.abs(extreme).max() < 6.4e-3
    assert len(extreme) - len(np.unique(extreme)) < 10


def test_tails():
    """4e8 elements: as many as there should be up to 6 sigma, of many different radii."""
    counts = dict.fromkeys((3.0, 4.0, 4.5, 5.0, 5.25, 5.5, 5.75, 6.0), 0)
    blocks, pairs = 40, []
    for block in range(blocks):
        values = sample(Normal(), name=f"block {block}")
        distances = np.abs(values)
        assert distances.max() < 6.7
        pairs.append(values.reshape(-1, 2)[np.flatnonzero(distances > 5) // 2])
        distances = distances[distances > 3]
        for sigma in counts:
            counts[sigma] += np.count_nonzero(distances > sigma)
    checks.check_normal_tails(counts, 2 * blocks * COUNT)
    squares = np.square(np.concatenate(pairs).astype(np.float64)).sum(axis=1)
    radius_bits = np.rint(np.exp(-squares / 2) * 2**31 - 0.5)
    assert len(np.unique(radius_bits)) > 0.9 * len(radius_bits) > 150  # of 24 bits: at most 62


@pytest.mark.parametrize("dtype", NARROW)
def test_rounded_normal(dtype):
    values = sample(Normal(), dtype, 4 * COUNT)
    checks.check_rounded_law(values, checks.normal())
    assert dtype.startswith("float8") or np.abs(values).max() > 5


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.05, 0.05), (-1.0, 3.0)])
def test_rounded_uniform(low, high, dtype):
    values = sample(Uniform(low, high), dtype)
    checks.check_rounded_law(values, checks.uniform(low, high), open_above=True)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(
    ("std", "low", "high"), [(1.0, -2.0, 2.0), (1.0, 0.3, 5.0), (0.01, -200.0, 200.0)]
)
def test_rounded_truncated_normal(std, low, high, dtype):
    values = sample(TruncatedNormal(std=std, low=low, high=high), dtype)
    checks.check_rounded_law(values, checks.truncated_normal(std * low, std * high, std))


def test_streams_are_unrelated():
    """Names of the same shape, and seeds: no correlation, no element in common but by chance."""
    count = 10**6
    streams = [sample(Normal(), count=count, name=f"layers.{i}.weight") for i in range(6)]
    streams += [sample(Normal(), count=count, name="layers.0.weight", seed=s) for s in (1, 2**63)]
    correlation = np.corrcoef(np.array(streams, np.float64))
    apart = correlation[~np.eye(len(streams), dtype=bool)]
    assert np.abs(apart).max() < checks.ERRORS / math.sqrt(count)
    for i in range(len(streams)):
        for j in range(i):
            assert np.count_nonzero(streams[i] == streams[j]) < 10
