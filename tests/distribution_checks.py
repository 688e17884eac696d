"""Exact laws, and the checks of a sample against them. Each raises AssertionError.

Limits are set for one false alarm in a million: a p-value of 1e-6, or 5 standard errors of a sum.
The seeds are fixed, so what passes once passes always; of a right sampler's seeds all but 1 in some
thousand would pass the few hundred statistics. The planted faults of test_faults.py show that the
checks can fail.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

P_VALUE = 1e-6
ERRORS = 5.0
BINS = 1024  # of equal probability
CELLS = 64  # a side of the joint distribution of two elements
COMMON = 100  # expected counts from which chi-square is trusted

# Elements apart: partners of a pair, steps of a lane, lanes, groups of lanes.
LAGS = (1, 2, 3, 4, 8, 64, 128, 1984, 3968, 7936, 15872, 31744)


@dataclass(frozen=True)
class Law:
    """A continuous distribution: `density` need not be normalized."""

    low: float
    high: float
    cdf: Callable[[np.ndarray], np.ndarray]
    density: Callable[[np.ndarray], np.ndarray]

    def moments(self, about: float, scale: float, highest: int) -> np.ndarray:
        """The moments 0, 1 ... of (x - about) / scale, by Gauss-Legendre quadrature."""
        low, high = max(self.low, about - 40 * scale), min(self.high, about + 40 * scale)
        nodes, weights = np.polynomial.legendre.leggauss(400)
        x = 0.5 * (high - low) * nodes + 0.5 * (high + low)
        weights = weights * self.density(x)
        powers = np.vander((x - about) / scale, highest + 1, increasing=True)
        return powers.T @ weights / weights.sum()


def uniform(low, high):
    return Law(low, high, lambda x: np.clip((x - low) / (high - low), 0, 1), np.ones_like)


def normal(std=1.0):
    return truncated_normal(-math.inf, math.inf, std)


def truncated_normal(low, high, std=1.0):
    """The normal of mean 0 cut to [low, high], from the tail that keeps its precision."""
    if low > 0:
        mirrored = truncated_normal(-high, -low, std)
        return Law(low, high, lambda x: 1 - mirrored.cdf(-x), lambda x: mirrored.density(-x))
    below, above = special.ndtr(low / std), special.ndtr(high / std)
    peak = min(high, 0.0)  # keeps the exponent small

    def cdf(x):
        return np.clip((special.ndtr(x / std) - below) / (above - below), 0, 1)

    return Law(low, high, cdf, lambda x: np.exp((peak * peak - x * x) / (2 * std * std)))


def check_law(values, law):
    """Chi-square and Kolmogorov-Smirnov, on bins of equal probability; moments; independence."""
    values = values.astype(np.float64)
    assert law.low <= values.min()
    assert values.max() <= law.high
    bins = np.minimum((law.cdf(values) * BINS).astype(np.int32), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    check_counts(counts, np.full(BINS, len(values) / BINS))
    distance = np.abs(np.cumsum(counts / len(values)) - np.arange(1, BINS + 1) / BINS).max()
    assert special.kolmogorov(distance * math.sqrt(len(values))) > P_VALUE, distance
    check_moments(values, law)
    check_independence(values, bins // (BINS // CELLS))


def check_counts(counts, expected):
    """Chi-square; what is rare is put together."""
    common = expected >= COMMON
    rest = [expected[~common].sum()] if expected[~common].sum() >= COMMON else []
    expected = np.append(expected[common], rest)
    counts = np.append(counts[common], [counts[~common].sum()][: len(rest)])
    statistic = (np.square(counts - expected) / expected).sum()
    assert special.chdtrc(len(counts) - 1, statistic) > P_VALUE, (statistic, len(counts))


def check_moments(values, law):
    """The moments 1 to 4 about the mean, in standard deviations."""
    unit = np.abs(values).max() / 40  # the quadrature goes as far as the values
    _, first, second = law.moments(0.0, unit, 2)
    mean, std = first * unit, math.sqrt(second - first**2) * unit
    exact = law.moments(mean, std, 8)
    z = (values - mean) / std
    power = np.ones_like(z)
    for order in range(1, 5):
        power *= z
        error = math.sqrt((exact[2 * order] - exact[order] ** 2) / len(z))
        assert abs(power.mean() - exact[order]) < ERRORS * error, (order, power.mean())


def check_independence(values, cells):
    """Pairs at each lag: no correlation of values or squares, no repetition, a flat joint law."""
    z = (values - values.mean()) / values.std()
    squares = np.square(z) - 1
    squares /= squares.std()
    for lag in LAGS:
        for series in (z, squares):
            correlation = np.dot(series[:-lag], series[lag:]) / (len(z) - lag)
            assert abs(correlation) < ERRORS / math.sqrt(len(z) - lag), (lag, correlation)
        assert np.count_nonzero(values[:-lag] == values[lag:]) < 1e-5 * len(z), lag
        pairs = cells[: len(z) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)  # each element once
        joint = np.bincount((pairs[:, 0] * CELLS + pairs[:, 1]).ravel(), minlength=CELLS**2)
        check_counts(joint, np.full(CELLS**2, joint.sum() / CELLS**2))


def check_rounded_law(values, law, *, open_above=False):
    """Every value of a narrow dtype as often as what is rounded to it, or clamped."""
    codes = np.arange(2 ** (8 * values.itemsize), dtype=f"u{values.itemsize}")
    with np.errstate(invalid="ignore"):  # some codes are no number
        decoded = codes.view(values.dtype).astype(np.float64)
    inside = (decoded >= law.low) & ((decoded < law.high) if open_above else (decoded <= law.high))
    grid = np.unique(decoded[inside & np.isfinite(decoded)])  # one zero
    counts_by_code = np.bincount(values.view(codes.dtype), minlength=len(codes))
    used = counts_by_code > 0
    assert np.isin(decoded[used], grid).all()
    counts = np.zeros(len(grid))
    np.add.at(counts, np.searchsorted(grid, decoded[used]), counts_by_code[used])
    edges = (grid[1:] + grid[:-1]) / 2
    check_counts(counts, np.diff([0.0, *law.cdf(edges), 1.0]) * len(values))


def check_normal_tails(counts, elements):
    """The numbers of elements beyond each sigma, on one side."""
    for sigma, count in counts.items():
        expected = special.ndtr(-sigma) * elements
        assert abs(count - expected) < ERRORS * math.sqrt(expected) + 5, (sigma, count, expected)
