"""The largest error of normals and truncated normals: distance from the formula's exact value.

Each library is judged by its own formula and draws: fanin's from its generator, torch's by running
its generator a second time for the uniforms that its Box-Muller transform takes. Exact values are
those of 64-bit mantissas (x87 long double) for normals, of SciPy in float64 for float32's truncated
normals, of mpmath for float64's. The unit is one in the last place of the value, and no less than
that of 1/2: near zero an absolute error of 2^-24 sigma is one unit of float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanin import Xorshift64Star, position
from fanin.bench.axes import DISTRIBUTIONS
from fanin.initializers import parse

Array = NDArray[Any]
Samples = tuple[Array, Array]  # as computed, exact

NAME, SEED = "error", 0
PI = np.longdouble("3.14159265358979323846264338327950288")


def largest_errors(distribution: str, dtype: str, torch: bool) -> dict[str, float]:
    """Units in the last place by library, where there is more error than that of rounding.

    Raises
    ------
    ImportError
        SciPy or mpmath is not installed.
    """
    if dtype not in ("float32", "float64"):
        return {}
    if distribution == "normal":
        units = {"fanin": _units(*_normals(dtype))}
        return {**units, "torch": _units(*_torch_normals(dtype))} if torch else units
    if distribution == "truncated_normal":
        return {"fanin": _units(*_truncated_normals(dtype))}
    return {}


def _units(values: Array, exact: Array) -> float:
    smallest = np.spacing(values.dtype.type(0.5))
    unit = np.maximum(np.spacing(np.abs(exact).astype(values.dtype)), smallest)
    return float((np.abs(values.astype(exact.dtype) - exact) / unit).max())


def _normals(dtype: str, pairs: int = 2**19) -> Samples:
    if dtype == "float32":
        draws = _draws(pairs)
        radius_bits = (draws >> np.uint64(33)).astype(np.float32) + np.float32(0.5)
        radius_u = radius_bits.astype(np.longdouble) * np.longdouble(2) ** -31
        turns = ((draws >> np.uint64(9)) & np.uint64(2**24 - 1)).astype(np.longdouble)
        exact = _box_muller(np.log(radius_u), (turns + np.longdouble(0.5)) * 2.0**-24)
    else:
        units = (_draws(2 * pairs) >> np.uint64(11)).astype(np.longdouble) * 2.0**-53
        exact = _box_muller(np.log1p(-units[0::2]), units[1::2])
    return _fanin("normal", exact.size, dtype), exact.T.ravel()


def _box_muller(log_u: Array, turns: Array) -> Array:
    radius, angle = np.sqrt(-2 * log_u), 2 * PI * turns
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)])


def _truncated_normals(dtype: str) -> Samples:
    import mpmath
    import scipy.special

    if dtype == "float32":
        count = 2**20
        part = ((_draws(count) >> np.uint64(32)).astype(np.float64) + 0.5) * 2.0**-32
        low, high = scipy.special.ndtr([-2.0, 2.0])
        exact = scipy.special.ndtri(low + part * (high - low))
    else:
        count = 2**12
        with mpmath.workprec(120):
            half_mass = mpmath.erf(mpmath.sqrt(2))
            exact = np.array(
                [
                    np.longdouble(str(mpmath.sqrt(2) * mpmath.erfinv((2 * part - 1) * half_mass)))
                    for draw in _draws(count)
                    if (part := (int(draw >> np.uint64(12)) + mpmath.mpf(0.5)) / 2**52)
                ]
            )
    return _fanin("truncated_normal", count, dtype), exact


def _torch_normals(dtype: str, count: int = 2**20) -> Samples:
    import torch

    def fill(method: str) -> Array:
        out = torch.empty(count, dtype=getattr(torch, dtype))
        filled = getattr(out, method)(generator=torch.Generator().manual_seed(SEED))
        return np.asarray(filled.numpy())

    # torch's blocks of 16: eight radii, then eight angles, in place of which come the values.
    uniforms = fill("uniform_").astype(np.longdouble).reshape(-1, 2, 8)
    exact = _box_muller(np.log1p(-uniforms[:, 0]), uniforms[:, 1])
    return fill("normal_"), exact.swapaxes(0, 1).ravel()


def _draws(count: int) -> Array:
    generator = Xorshift64Star(0x9E3779B97F4A7C15)
    generator.jump(position(SEED, NAME))
    return np.array([generator.next_u64() for _ in range(count)], np.uint64)


def _fanin(distribution: str, count: int, dtype: str) -> Array:
    init = parse(DISTRIBUTIONS[distribution])
    out: Array = init.fill(np.empty(count, dtype), seed=SEED, name=NAME)
    return out
