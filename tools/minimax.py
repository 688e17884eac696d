"""Minimax polynomials whose coefficients are numbers of float32 or float64.

Remez' exchange for the relative error of a function, over a grid of some 20 points for each wave of
the error. A step solves in float64 for a correction of the polynomial, whose error is then taken
anew in fixed point: so a few steps give all digits. The coefficients are rounded one by one, lowest
order first, and the others fitted again each time to make up for it. Only IEEE operations, integers
and mpmath are used (no BLAS, no vector library), so that every machine finds the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from mpmath import mp, mpf

GRID = 400
FRACTION_BITS = 160
mp.prec = 180


@dataclass(frozen=True)
class Fit:
    """A polynomial P, in powers of its argument minus `origin`, for `form(x, P, fma)` ~ `exact(x)`.

    x is in [low, high]. `form` is affine in P and takes mpmath's numbers as well as numpy's arrays.
    """

    dtype: type[np.floating[Any]]
    degree: int
    low: Any
    high: Any
    exact: Callable[[Any], Any]
    form: Callable[..., Any]
    head: tuple[int, ...] = ()  # the lowest coefficients, where they are given
    origin: float = 0.0

    @cached_property
    def points(self) -> list[Any]:
        """Numbers of the dtype in the interval, denser to its ends, without 0."""
        cosines = [mp.cos(mp.pi * k / (GRID - 1)) for k in range(GRID)]
        grid = [(self.low * (1 + c) + self.high * (1 - c)) / 2 for c in cosines]
        return [mpf(x) for x in sorted({float(self.dtype(float(x))) for x in grid}) if x != 0]

    @cached_property
    def values(self) -> list[Any]:
        return [self.exact(x) for x in self.points]

    @cached_property
    def coefficients(self) -> list[float]:
        """The coefficients, lowest order first."""
        exchange = Exchange(self)
        given = [fixed(mpf(c)) for c in self.head]
        best = exchange.solve(given + [0] * (self.degree + 1 - len(given)), len(given))
        for k in range(len(given), self.degree + 1):
            best[k] = fixed(mpf(float(self.dtype(float(real(best[k]))))))
            best = exchange.solve(best, k + 1)
        return [float(real(c)) for c in best]

    def error(self) -> float:
        """The largest relative error, all but the coefficients exact."""
        errors = Exchange(self).errors([fixed(mpf(c)) for c in self.coefficients])
        return float(np.abs(errors).max())

    def ulps(self) -> float:
        """The largest error on the grid, in ULP, when evaluated in the dtype by Horner and fma."""

        def polynomial(x: Any) -> Any:
            x = x - self.origin
            total = np.full_like(x, self.coefficients[-1])
            for c in reversed(self.coefficients[:-1]):
                total = working_fma(total, x, np.full_like(x, c))
            return total

        x = np.array([float(point) for point in self.points]).astype(self.dtype)
        high = np.array([float(value) for value in self.values])
        low = np.array([float(value - mpf(float(value))) for value in self.values])
        computed = self.form(x, polynomial, working_fma).astype(np.float64)
        ulp = np.spacing(np.abs(high).astype(self.dtype)).astype(np.float64)
        return float((np.abs((computed - high) - low) / ulp).max())


class Exchange:
    """The search for the P(x) that makes weight * |target - P(x)| smallest on a fit's grid."""

    def __init__(self, fit: Fit) -> None:
        x, target, weight = [], [], []
        for point, value in zip(fit.points, fit.values, strict=True):
            variable: list[Any] = []
            without = fit.form(point, lambda v, seen=variable: seen.append(v) or mpf(0), exact_fma)
            factor = fit.form(point, lambda v: mpf(1), exact_fma) - without
            x.append(fixed(variable[0] - fit.origin))
            target.append(fixed((value - without) / factor))
            weight.append(abs(float(factor / value)))
        self.x = np.array(x, dtype=object)
        self.target = np.array(target, dtype=object)
        self.weight = np.array(weight)
        self.scale = max(abs(real(v)) for v in x)
        self.powers = np.vander(
            [float(real(v) / self.scale) for v in x], fit.degree + 1, increasing=True
        )

    def errors(self, coefficients: Sequence[int]) -> Any:
        total = 0 * self.x
        for c in reversed(coefficients):
            total = ((total * self.x) >> FRACTION_BITS) + c
        return np.array([float(real(e)) for e in self.target - total]) * self.weight

    def solve(self, start: Sequence[int], given: int) -> list[int]:
        """The best polynomial whose first `given` coefficients are those of `start`."""
        best = list(start)
        if given == len(best):
            return best
        coefficients, errors = list(start), self.errors(start)
        smallest = np.abs(errors).max()
        unknowns = len(best) - given + 1
        reference = alternation(errors, unknowns)
        if len(reference) < unknowns:
            reference = np.linspace(0, len(errors) - 1, unknowns).round().astype(int)
        signs = np.where(np.arange(unknowns) % 2, -1.0, 1.0)
        for _ in range(30 if given < 2 else 6):
            largest = np.abs(errors).max()
            weighted = self.powers[reference, given:] * self.weight[reference, None]
            solution = gauss(np.column_stack([weighted, signs]), errors[reference] / largest)
            for k in range(given, len(best)):
                coefficients[k] += fixed(largest * mpf(solution[k - given]) / self.scale**k)
            errors = self.errors(coefficients)
            if np.abs(errors).max() < smallest:
                best, smallest = list(coefficients), np.abs(errors).max()
            peaks = alternation(errors, unknowns)
            if len(peaks) == unknowns:
                reference = peaks
                if smallest < 1.001 * np.abs(errors[peaks]).min():
                    break
        return best


def alternation(errors: Any, count: int) -> Any:
    """Indices of the `count` largest peaks of alternating sign (of all, if there are fewer)."""
    runs = np.split(np.arange(len(errors)), np.flatnonzero(np.diff(np.sign(errors))) + 1)
    peaks = [int(run[np.abs(errors[run]).argmax()]) for run in runs]
    while len(peaks) > count:
        heights = np.abs(errors[peaks])
        if len(peaks) == count + 1:
            del peaks[0 if heights[0] < heights[-1] else -1]
        else:
            lowest = int(np.maximum(heights[:-1], heights[1:]).argmin())
            del peaks[lowest : lowest + 2]
    return np.array(peaks)


def gauss(matrix: Any, right: Any) -> Any:
    """Solves matrix @ x = right by elimination with row pivots."""
    rows = np.column_stack([matrix, right])
    for k in range(len(rows)):
        pivot = k + int(np.abs(rows[k:, k]).argmax())
        rows[[k, pivot]] = rows[[pivot, k]]
        rows[k] /= rows[k, k]
        others = np.arange(len(rows)) != k
        rows[others] -= rows[others, k, None] * rows[k]
    return rows[:, -1]


def fixed(value: Any) -> int:
    return int(mp.nint(mp.ldexp(value, FRACTION_BITS)))


def real(value: int) -> Any:
    return mp.ldexp(mpf(value), -FRACTION_BITS)


def exact_fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def working_fma(a: Any, b: Any, c: Any) -> Any:
    """a b + c of arrays, rounded once (float64: but for sums within 2^-53 ULP of a tie)."""
    if a.dtype == np.float32:
        product, c = a.astype(np.float64) * b, c.astype(np.float64)  # exact
        total, rest = two_sum(product, c)
        # Rounded to odd, a sum of 53 bits rounds to 24 bits as the exact one does.
        even = (total.view(np.int64) & 1) == 0
        odd = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
        return np.where((rest != 0) & even, odd, total).astype(np.float32)
    product = a * b
    (a1, a0), (b1, b0) = halves(a), halves(b)
    total, rest = two_sum(product, c)
    return total + (rest + (((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0))


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded a + b, and what was rounded off (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def halves(a: Any) -> tuple[Any, Any]:
    """A float64 as the sum of two of 26 bits (Veltkamp)."""
    scaled = 134217729.0 * a
    high = scaled - (scaled - a)
    return high, a - high
