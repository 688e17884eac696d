"""Statistical checks that every sampler must pass, and that a wrong kernel must not.

Each check draws many values with a fixed seed and compares with the exact law; a check is a
function that raises AssertionError. Limits are set for a false alarm in 1e6 under the null
hypothesis: 5 standard errors for sums, and a p-value of 1e-6 for Kolmogorov-Smirnov and chi-square.
With fixed seeds a check that passes once passes always; the planted faults of test_faults.py show
that it can fail.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from fanin.initializers import Initializer, Normal, TruncatedNormal, Uniform
from fanin.output import numpy_dtype

COUNT = 10_000_000
ERRORS = 5.0  # standard errors: 6e-7
P_VALUE = 1e-6


def sample(init: Initializer, dtype="float32", count=COUNT, name="w", seed=0):
    """Sample a vector."""
    return init.fill(np.empty(count, numpy_dtype(dtype)), seed=seed, name=name)


class Truncated:
    """The standard normal cut to [low, high], from the more precise tail (SciPy's is slow)."""

    def __init__(self, low, high):
        self.low, self.high = low, high
        self.flip = -1.0 if low > 0 else 1.0  # look at an upper tail as a lower one
        self.ends = sorted((self.flip * low, self.flip * high))
        self.mass = special.ndtr(self.ends[1]) - special.ndtr(self.ends[0])

    def cdf(self, x):
        below = (special.ndtr(self.flip * x) - special.ndtr(self.ends[0])) / self.mass
        return np.clip(below if self.flip > 0 else 1 - below, 0, 1)

    def pdf(self, x):
        peak = max(self.low, 0.0)  # keeps the exponent small; moments need no constant
        return np.exp(-0.5 * (np.square(x) - peak**2))

    def support(self):
        return self.low, self.high

    def mean(self):
        return stats.truncnorm(self.low, self.high).mean()

    def std(self):
        return stats.truncnorm(self.low, self.high).std()


def check_law(values, law):
    """Kolmogorov-Smirnov of the values against a continuous law."""
    values = np.sort(values.astype(np.float64))
    expected = law.cdf(values)
    steps = np.arange(len(values) + 1) / len(values)
    distance = max((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    assert special.kolmogorov(distance * math.sqrt(len(values))) > P_VALUE, distance


def check_moments(values, law):
    """The moments 1 to 4 about the law's mean."""
    mean, std = law.mean(), law.std()
    z = (values.astype(np.float64) - mean) / std
    for order in (1, 2, 3, 4):
        exact = _standard_moment(law, order)
        error = math.sqrt((_standard_moment(law, 2 * order) - exact**2) / len(z))
        measured = float((z**order).mean())
        assert abs(measured - exact) < ERRORS * error, (order, measured, exact)


def _standard_moment(law, order):
    mean, std = law.mean(), law.std()
    low, high = law.support()
    low, high = max(low, mean - 40 * std), min(high, mean + 40 * std)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    x = 0.5 * (high - low) * nodes + 0.5 * (high + low)
    density = law.pdf(x)
    return float(
        (weights * density * ((x - mean) / std) ** order).sum() / (weights * density).sum()
    )


def check_counts(values, law, edges):
    """Chi-square of the counts between edges, which is where a rounded law can be exact too."""
    counts = np.histogram(values.astype(np.float64), [-np.inf, *edges, np.inf])[0]
    expected = np.diff([0.0, *law.cdf(np.asarray(edges, np.float64)), 1.0]) * len(values)
    large = expected >= 20
    statistic = ((counts - expected)[large] ** 2 / expected[large]).sum()
    assert stats.chi2.sf(statistic, large.sum() - 1) > P_VALUE, (counts, expected)
    few = np.abs(counts - expected)[~large]
    assert (few <= 20 + ERRORS * np.sqrt(20)).all(), (counts, expected)


def check_tails(values, law):
    """Counts beyond 3, 4, 4.5 and 5 standard deviations of the normal, on either side."""
    for sigma in (3.0, 4.0, 4.5, 5.0):
        for tail, probability in (
            (values > sigma, law.sf(sigma)),
            (values < -sigma, law.cdf(-sigma)),
        ):
            expected = probability * len(values)
            limit = ERRORS * math.sqrt(expected) + 3
            assert abs(int(tail.sum()) - expected) < limit, (sigma, int(tail.sum()), expected)


def check_independence(values, lags=(1, 2, 3, 4, 7, 8, 64, 128, 1984, 3968, 7936, 15872)):
    """No correlation between elements at the distances where a kernel could repeat itself."""
    z = values.astype(np.float64)
    z = (z - z.mean()) / z.std()
    squares = z * z - 1
    squares /= squares.std()
    for lag in lags:
        for series in (z, squares):
            correlation = float((series[:-lag] * series[lag:]).mean())
            assert abs(correlation) < ERRORS / math.sqrt(len(z) - lag), (lag, correlation)
        assert np.count_nonzero(values[:-lag] == values[lag:]) < 1e-3 * len(values), lag


def normal_float32():
    values = sample(Normal())
    law = stats.norm()
    check_law(values, law)
    check_moments(values, law)
    check_tails(values, law)
    check_independence(values)
    assert np.isfinite(values).all()


def normal_extremes():
    """Some of 4e8 values lie beyond 5.75 sigma, where a radius of 24 bits never goes."""
    farthest = 0.0
    for block in range(8):
        values = sample(Normal(), count=5 * COUNT, name=f"block {block}")
        farthest = max(farthest, float(np.abs(values).max()))
    assert 5.75 < farthest < 6.7, farthest


def normal_float64():
    values = sample(Normal(), "float64", COUNT // 2)
    law = stats.norm()
    check_law(values, law)
    check_moments(values, law)
    check_tails(values, law)
    check_independence(values)


def normal_bfloat16():
    """The rounded law: edges half-way between neighbours, where nothing is ambiguous."""
    values = sample(Normal(), "bfloat16").astype(np.float32)
    grid = np.unique(np.concatenate([values[:100_000], -values[:100_000]]))
    grid = grid[np.abs(grid) > 0.05]
    edges = (grid[1:] + grid[:-1]) / 2
    edges = edges[np.abs(edges) < 4][::3]
    check_counts(values, stats.norm(), np.nextafter(edges, np.inf))
    assert np.abs(values).max() > 5


def uniform_float32():
    values = sample(Uniform(-1.0, 3.0))
    law = stats.uniform(-1, 4)
    check_law(values, law)
    check_moments(values, law)
    check_independence(values)
    assert values.min() >= -1
    assert values.max() < 3


def uniform_narrow():
    for dtype in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"):
        values = sample(Uniform(), dtype).astype(np.float32)
        assert values.max() < 1, dtype
        assert values.min() >= 0, dtype
        assert abs(float((values < 0.375).mean()) - 0.375) < 0.01 + 0.03 * dtype.startswith(
            "float8"
        )


def truncated_normal():
    for low, high in ((-2.0, 2.0), (0.0, math.inf), (-1.0, 3.0), (5.0, math.inf), (2.0, 2.5)):
        values = sample(TruncatedNormal(low=low, high=high))
        law = Truncated(low, high)
        check_law(values, law)
        check_moments(values, law)
        check_independence(values)
        assert values.min() >= low
        assert values.max() <= high
        values = sample(TruncatedNormal(low=low, high=high), "float64", COUNT // 10)
        check_law(values, law)


def truncated_far_bounds():
    """Bounds of 1000 sigma: the plain normal, and no atom anywhere."""
    values = sample(TruncatedNormal(low=-1000.0, high=1000.0))
    check_law(values, stats.norm())
    check_moments(values, stats.norm())
    check_tails(values, stats.norm())
    extreme, repeats = np.unique(values[np.abs(values) > 4], return_counts=True)
    assert np.abs(extreme).max() < 6.4
    assert repeats.max() <= 3


def streams_are_unrelated():
    """Different names and seeds: no correlation, and no shared values in order."""
    streams = [sample(Normal(), count=10**6, name=f"layers.{i}.weight") for i in range(6)]
    streams.append(sample(Normal(), count=10**6, name="layers.0.weight", seed=1))
    correlation = np.corrcoef(np.array(streams, np.float64))
    apart = correlation[~np.eye(len(streams), dtype=bool)]
    assert np.abs(apart).max() < ERRORS / math.sqrt(10**6)


def bfloat16_is_rounded():
    """The float32 value rounded once, to nearest, ties to even."""
    exact = sample(Normal(), count=10**6)
    narrow = sample(Normal(), "bfloat16", 10**6)
    assert (narrow == exact.astype(numpy_dtype("bfloat16"))).all()


CHECKS = [
    normal_float32,
    normal_extremes,
    normal_float64,
    normal_bfloat16,
    uniform_float32,
    uniform_narrow,
    truncated_normal,
    truncated_far_bounds,
    streams_are_unrelated,
    bfloat16_is_rounded,
]


def report(check):
    """Print whether a check is green or red."""
    try:
        check()
    except AssertionError as failure:
        print(f"{check.__name__}: red {failure}"[:200].splitlines()[0])
    else:
        print(f"{check.__name__}: green")
