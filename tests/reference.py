"""The tests' own reference of the stream, written from the contract and not from the core.

Integers, uniforms, rounding and clamping are exact, bit for bit: NumPy for the draws, a fused
multiply-add by rounding to odd (Boldo and Melquiond 2008) or by fractions. Normals and truncated
normals are values of the formula by mpmath, to compare with a tolerance.
"""

import json
import math
import platform
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np

MASK = 2**64 - 1
PERIOD = 2**64 - 1
START = 0x9E3779B97F4A7C15
MULTIPLIER = 0x2545F4914F6CDD1D

DTYPES = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

# FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO of fesetround
ROUNDING_MODES = (
    (0x400, 0x800, 0xC00) if platform.machine() == "x86_64" else (0x800000, 0x400000, 0xC00000)
)

KNOWN_ANSWERS = json.loads((Path(__file__).parent / "data" / "stream.json").read_text())


def step(state):
    """One step of the generator, on an int or on an array of uint64."""
    state = state ^ (state >> 12)
    state = state ^ ((state << 25) & MASK)
    return state ^ (state >> 27)


def apply(columns, state):
    """The matrix with these columns, times a state: an int, or an array of uint64."""
    result = state & 0
    for bit, column in enumerate(columns):
        result = result ^ (column * ((state >> bit) & 1))
    return result


# POWERS[k]: the columns of the matrix of 2**k steps.
POWERS = [[step(1 << bit) for bit in range(64)]]
while len(POWERS) < 64:
    POWERS.append([apply(POWERS[-1], column) for column in POWERS[-1]])


def jump(state, steps):
    """The state after so many steps."""
    for bit in range(64):
        if steps >> bit & 1:
            state = apply(POWERS[bit], state)
    return state


def draws(position, first, count):
    """Draws `first`, `first + 1` ... of the matrix at `position`, as uint64."""
    states = np.array([jump(START, (position + first) % PERIOD + 1)], dtype=np.uint64)
    for power in POWERS:
        if len(states) >= count:
            break
        columns = [np.uint64(column) for column in power]
        ahead = np.zeros_like(states)
        for bit, column in enumerate(columns):
            ahead ^= column * ((states >> np.uint64(bit)) & np.uint64(1))
        states = np.concatenate([states, ahead])
    return states[:count] * np.uint64(MULTIPLIER)


def uniform(position, count, low, high, dtype, start=0):
    """Elements `start`, `start + 1` ... of a uniform matrix on [low, high): exact."""
    width = high - low
    if dtype == "float64":
        bits = (draws(position, start, count) >> np.uint64(11)).tolist()
        values = np.array([fma64(m * 2.0**-53, width, low) for m in bits])
    else:
        x = draws(position, start // 2, count // 2 + 2)
        m = np.stack([x >> np.uint64(40), (x >> np.uint64(8)) & np.uint64(2**24 - 1)], axis=1)
        u = m.ravel()[start % 2 :][:count].astype(np.float32) * np.float32(2.0**-24)
        values = fma32(u, np.float32(width), np.float32(low))
    return clamp(round_to(values, dtype), low, high, open_above=True)


@mpmath.workdps(40)
def normal(position, element, dtype):
    """Element of a standard normal matrix: the formula's value, by mpmath."""
    pair = element // 2
    if dtype == "float64":
        first, second = draws(position, 2 * pair, 2).tolist()
        u = 1 - mpmath.mpf(first >> 11) / 2**53
        angle = 2 * mpmath.pi * mpmath.mpf(second >> 11) / 2**53
    else:
        (x,) = draws(position, pair, 1).tolist()
        # The sum with a half is rounded to float32, as the contract's formula is written.
        u = mpmath.mpf(float(np.float32(x >> 33) + np.float32(0.5))) / 2**31
        angle = 2 * mpmath.pi * (mpmath.mpf((x >> 9) & (2**24 - 1)) + mpmath.mpf(1) / 2) / 2**24
    radius = mpmath.sqrt(-2 * mpmath.log(u))
    return radius * (mpmath.sin(angle) if element % 2 else mpmath.cos(angle))


@mpmath.workdps(40)
def truncated_normal(position, element, low, high, dtype):
    """Element of a standard normal matrix cut to [low, high]: the formula's value, by mpmath."""
    (x,) = draws(position, element, 1).tolist()
    bits = (x >> 12, 52) if dtype == "float64" else (x >> 32, 32)
    u = (mpmath.mpf(bits[0]) + mpmath.mpf(1) / 2) / 2 ** bits[1]
    if low > 0:  # the mirror image, for the precision of the small tail
        return -_inverse(_cdf(-high) * u + _cdf(-low) * (1 - u))
    return _inverse(_cdf(low) * (1 - u) + _cdf(high) * u)


def fma32(a, b, c):
    """a*b + c of float32 arrays, rounded once."""
    a, b, c = (np.asarray(x, dtype=np.float32).astype(np.float64) for x in (a, b, c))
    product = a * b  # exact: 48 bits
    total = product + c
    rest = total - product
    error = (product - (total - rest)) + (c - rest)
    bits = np.atleast_1d(total).view(np.uint64).reshape(total.shape)
    towards = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    odd = np.where((error != 0) & (bits & np.uint64(1) == 0), towards, total)
    return odd.astype(np.float32)


def fma64(a, b, c):
    """a*b + c of Python floats, rounded once."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator  # correctly rounded by Python


def round_to(values, dtype):
    """Round float32 (or float64) values once to a dtype; float8 saturates."""
    if dtype in ("float64", "float32"):
        return values.astype(DTYPES[dtype])
    with np.errstate(over="ignore"):
        if dtype.startswith("float8"):
            largest = float(ml_dtypes.finfo(DTYPES[dtype]).max)
            values = np.clip(values, -largest, largest)
        return values.astype(DTYPES[dtype])


def clamp(values, low, high, *, open_above):
    """Clamp to the values that the dtype has within [low, high], or [low, high)."""
    smallest = neighbour(values.dtype, low, up=True)
    largest = neighbour(values.dtype, high, up=False)
    if open_above and float(largest) == high:
        largest = next_to(largest, up=False)
    return np.minimum(np.maximum(values, smallest), largest)


def neighbour(dtype, x, *, up):
    """The nearest value of the dtype at or above x, or at or below it."""
    nearest = round_to(np.array([x]), dtype.name)[0]
    if up and float(nearest) < x:
        return next_to(nearest, up=True)
    if not up and float(nearest) > x:
        return next_to(nearest, up=False)
    return nearest


def next_to(value, *, up):
    """The next value of the dtype above or below (not towards infinity: float8_e4m3fn has none)."""
    largest = ml_dtypes.finfo(value.dtype).max
    return np.nextafter(value, largest if up else -largest)


def bits(array):
    """The bit patterns of an array, to compare for equality."""
    return array.view(f"u{array.dtype.itemsize}")


def _cdf(x):
    return mpmath.ncdf(x) if math.isfinite(x) else mpmath.mpf(x > 0)


def _inverse(p):
    """Quantile of the standard normal."""
    if p > mpmath.mpf(1) / 2:
        return -_inverse(1 - p)
    guess = -mpmath.sqrt(-2 * mpmath.log(p)) if p < mpmath.mpf("0.02") else mpmath.mpf(0)
    # Newton on the logarithm, which is concave: it converges from everywhere.
    return mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(p), guess)
