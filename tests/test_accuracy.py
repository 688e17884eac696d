"""Normals and truncated normals against the exact formula: in bulk, and at the extreme draws.

The largest radius comes once in 2^31 pairs, the outermost quantile once in 2^32 elements: no sample
of a test meets them. The discrete logarithm does (see discrete_logarithm.py).
"""

import functools
import itertools
import math
import random

import mpmath
import numpy as np
import pytest
from scipy import special

import discrete_logarithm
import reference
from fanin import _core

position_of = functools.cache(discrete_logarithm.position_of)
POSITION = 2**63 + 12345  # of the bulk


def fill(sampler, position, count):
    """The first elements of the vector at a position."""
    out = np.empty(count, reference.DTYPES[sampler.dtype])
    _core.fill(sampler, position, out, (count,), (0,), 1)
    return out


def worst(values, exact):
    """The largest error, as a part of what is allowed (the contract's bound)."""
    values, exact = np.asarray(values), np.asarray(exact)
    ulps, near_zero = (8, 1e-15) if values.dtype == np.float64 else (4, 2.0**-24)
    allowed = np.maximum(ulps * np.spacing(np.abs(exact).astype(values.dtype)), near_zero)
    return float((np.abs(values - exact) / allowed).max())


# ---- In bulk: NumPy and SciPy have the digits to spare.


def test_float32_normals():
    x = reference.draws(POSITION, 0, 2**21)
    u = ((x >> np.uint64(33)).astype(np.float32) + np.float32(0.5)).astype(np.float64) * 2.0**-31
    j = (x >> np.uint64(9)) & np.uint64(2**24 - 1)
    angle = 2 * np.pi * (j.astype(np.float64) + 0.5) * 2.0**-24
    radius = np.sqrt(-2 * np.log(u))
    exact = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
    assert worst(fill(_core.Sampler.normal(0, 1, "float32"), POSITION, 2**22), exact) <= 1


def test_float64_normals():
    assert np.finfo(np.longdouble).nmant >= 63
    x = (reference.draws(POSITION, 0, 2**18) >> np.uint64(11)).astype(np.longdouble)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    radius = np.sqrt(-2 * np.log1p(-x[::2] / 2**53))
    angle = 2 * pi * x[1::2] / 2**53
    exact = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
    assert worst(fill(_core.Sampler.normal(0, 1, "float64"), POSITION, 2**18), exact) <= 1


@pytest.mark.parametrize(
    ("low", "high"),
    [(-2, 2), (-1000, 1000), (0, math.inf), (-1, 3), (-0.01, 0.02), (2, 9), (-math.inf, -5)],
)
def test_float32_truncated_normals(low, high):
    k = (reference.draws(POSITION, 0, 2**20) >> np.uint64(32)).astype(np.float64)
    mirrored = low > 0  # the formula, from the tail that keeps its precision
    a, b = (special.ndtr(x) for x in ((-high, -low) if mirrored else (low, high)))
    u = (k + 0.5) * 2.0**-32
    u, v = (1 - u, u) if mirrored else (u, 1 - u)
    below, above = a + u * (b - a), (1 - b) + v * (b - a)
    z = np.where(below < above, special.ndtri(below), -special.ndtri(above))
    exact = np.clip(-z if mirrored else z, np.float32(low), np.float32(high))
    sampler = _core.Sampler.truncated_normal(0, 1, low, high, low, high, "float32")
    assert worst(fill(sampler, POSITION, 2**20), exact) <= 1


# ---- At chosen draws: mpmath.


def at_ends_and_between(size, breaks=()):
    """The first and last two of 0..size-1, three at each break, some at random."""
    chosen = {0, 1, size - 2, size - 1, *random.Random(size).sample(range(size), 4)}
    for place in breaks:
        chosen.update((place - 1, place, (place + 1) % size))
    return sorted(chosen)


def float32_pairs():
    """Draws by their radius's 31 bits and their angle's 24."""
    angles = at_ends_and_between(2**24, [i * 2**21 for i in range(1, 8)])
    root_half = math.isqrt(2**61)  # the logarithm changes its exponent there
    radii = at_ends_and_between(
        2**31, [2**31 - 64, 2**30, 2**24, 2**23, root_half, root_half >> 9, root_half >> 27]
    )
    chosen = {*itertools.product(radii[:2] + radii[-2:], angles)}
    chosen |= {*itertools.product(radii, angles[:2] + angles[9:11])}
    for index, (radius, angle) in enumerate(sorted(chosen)):
        unused = (0, 0x1FF, 0xA5)[index % 3]
        yield (radius << 33 | angle << 9 | unused) or 1  # 0 is no draw


def test_float32_normals_at_extreme_draws():
    sampler = _core.Sampler.normal(0, 1, "float32")
    values, exact = [], []
    for draw in float32_pairs():
        position = position_of(draw)
        values.extend(fill(sampler, position, 2))
        exact.extend(float(reference.normal(position, e, "float32")) for e in range(2))
    values = np.array(values)
    assert worst(values, exact) <= 1
    assert np.abs(values).max() == pytest.approx(math.sqrt(64 * math.log(2)), rel=1e-7)


def test_a_radius_that_rounds_to_0():
    """u = 1 gives exactly 0, which 2^-31 (2^31 - 64 + 1/2) rounds to in float32."""
    for radius in (2**31 - 64, 2**31 - 1):
        position = position_of(radius << 33 | 12345 << 9)
        assert fill(_core.Sampler.normal(0, 1, "float32"), position, 2).tolist() == [0, 0]
    position = position_of(0x7FF)  # the float64 radius of 53 zeros
    assert fill(_core.Sampler.normal(0, 1, "float64"), position, 2).tolist() == [0, 0]


@pytest.mark.parametrize("which", ["radius", "angle"])
def test_float64_normals_at_extreme_draws(which):
    breaks = {"radius": [2**52, math.isqrt(2**105)], "angle": [i * 2**50 for i in range(1, 8)]}
    values, exact = [], []
    for bits in at_ends_and_between(2**53, breaks[which]):
        position = position_of(bits << 11 | 0x7FF)
        if which == "angle":
            position = (position - 1) % reference.PERIOD
        values.extend(fill(_core.Sampler.normal(0, 1, "float64"), position, 2))
        exact.extend(float(reference.normal(position, e, "float64")) for e in range(2))
    assert worst(np.array(values), exact) <= 1
    if which == "radius":
        assert math.hypot(*values[-2:]) == pytest.approx(math.sqrt(106 * math.log(2)))


BOUNDS = [
    *((-2, 2), (-1000, 1000), (-math.inf, math.inf), (-1, 3), (-3, -1), (-8, math.inf)),
    *((0, math.inf), (-math.inf, 0), (0.5, 0.75), (-0.001, 0.002), (1e-30, 2e-30), (-1e-8, 0)),
    *((5, math.inf), (-math.inf, -5), (-math.inf, 8), (3, 3 + 1e-6), (-20.001, -20)),
    *((10.9, math.inf), (11, math.inf), (10.999, 11.001), (11.001, 11.002), (-12, -11.5)),
    *((12, math.inf), (-math.inf, -13), (36.9, 37), (37, math.inf), (-1000, -37), (5, 30)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_truncated_normals_at_extreme_draws(low, high, dtype):
    sampler = _core.Sampler.truncated_normal(0, 1, low, high, low, high, dtype)
    values, exact = [], []
    for bits in at_ends_and_between(2**52, [2**51]):  # of which float32 uses the upper 32
        position = position_of(bits << 12 | 0xFFF)
        values.extend(fill(sampler, position, 1))
        exact.append(float(reference.truncated_normal(position, 0, low, high, dtype)))
    values = np.array(values)
    smallest = reference.neighbour(values.dtype, low, up=True)
    largest = reference.neighbour(values.dtype, high, up=False)
    assert worst(values, np.clip(exact, smallest, largest)) <= 1
    assert smallest <= values.min()
    assert values.max() <= largest


@mpmath.workdps(40)
def test_float64_truncated_normals_reach_both_ends_of_a_far_tail():
    """37 sigma: the innermost and outermost quantiles of 2^52, which differ by 0.9 sigma."""
    sampler = _core.Sampler.truncated_normal(0, 1, 37, math.inf, 37, math.inf, "float64")
    inner = fill(sampler, position_of(0xFFF), 1)[0]
    outer = fill(sampler, position_of(2**64 - 1), 1)[0]
    assert 37 <= inner < 37 + 1e-15 * 37
    tail = mpmath.ncdf(-37) * mpmath.mpf(2) ** -53
    assert abs(outer - mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(-z) / tail), 38)) < 1e-13
