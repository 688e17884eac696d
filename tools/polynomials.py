"""Makes csrc/polynomials.h: `python tools/polynomials.py` writes it, `--check` only compares.

Each table is the minimax polynomial for the *relative* error of the function that it serves, found by
Remez' exchange. A step solves in float64 for a correction of the polynomial, whose error is then taken
anew in 220-bit fixed point; so few steps give all digits, with nothing but numpy's linear algebra.
The coefficients are rounded one by one, lowest order first, and the others fitted again each time, to
make up for it. The errors stated beside a table are measured at the end: that of the rounded
polynomial, exactly, and that of the formula evaluated as the kernels do, in Horner's order with fused
multiply-adds in float32 or float64.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp, mpf

HEADER = Path(__file__).resolve().parents[1] / "csrc" / "polynomials.h"
FRACTION_BITS = 220
GRID = 400  # points an interval, some 20 for each wave of the error
mp.prec = 240


@dataclass(frozen=True)
class Fit:
    """`form(x, P, fma)` is to be `exact(x)` for x in [low, high], P a polynomial of this degree."""

    dtype: type[np.floating[Any]]
    degree: int
    low: Any
    high: Any
    exact: Callable[[Any], Any]
    form: Callable[..., Any]
    head: tuple[int, ...] = ()  # the leading coefficients, where they are given

    def points(self) -> list[Any]:
        """Points of the interval in the working type (as mpf), dense at its ends; none is 0."""
        low, high = mpf(self.low), mpf(self.high)
        cosines = [mp.cos(mp.pi * k / (GRID - 1)) for k in range(GRID)]
        rounded = {self.dtype(float((low + high - (high - low) * c) / 2)) for c in cosines}
        return [mpf(float(x)) for x in sorted(rounded) if x != 0]


@dataclass(frozen=True)
class Table:
    name: str
    formula: str
    fits: tuple[Fit, ...]  # one, or the pieces of a piecewise polynomial
    intervals: str


# --- The functions --------------------------------------------------------------------------------

LN2_F32 = np.float32
CENTRE_END = 5.25  # of w, where 3 sigma are 5.22
TAIL_ENDS_F32 = (5.25, 21.5, 88.0)  # p = 2^-33, and the least normal float32
TAIL_ENDS_F64 = (5.25, 22.0, 121.0, 730.0)  # ..., and below the least float64
ERFCX_K, ERFCX_END = mpf("3.75"), 28


def normal_quantile(w: Any) -> Any:
    """z > 0 with 4 p (1 - p) = exp(-w), p = Phi(z), by Newton's method from above."""
    z = mp.sqrt(2 * w)
    while True:
        q = mp.erfc(z / mp.sqrt(2)) / 2
        log = -mp.log1p(-(mp.erf(z / mp.sqrt(2)) ** 2)) if z < 2 else -mp.log(4 * q * (1 - q))
        step = (log - w) * q * (1 - q) / (mp.npdf(z) * (1 - 2 * q))
        z -= step
        if abs(step) < z * mpf(2) ** -110:
            return z


def scaled_erfc(t: Any) -> Any:
    x = ERFCX_K * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def centre(dtype: type[np.floating[Any]], degree: int) -> Fit:
    return Fit(
        dtype, degree, 2.0**-60, CENTRE_END,
        lambda w: normal_quantile(w) / mp.sqrt(-mp.expm1(-w)),
        lambda w, p, fma: p(w - dtype(CENTRE_END / 2)),
    )  # fmt: skip


def tail_origins(ends: Sequence[float]) -> list[float]:
    """The middle of each interval of sqrt(w), in few bits."""
    roots = np.sqrt(ends)
    return [round(32 * (a + b)) / 64 for a, b in zip(roots, roots[1:])]


def tails(dtype: type[np.floating[Any]], degree: int, ends: Sequence[float]) -> tuple[Fit, ...]:
    def piece(low: float, high: float, origin: float) -> Fit:
        return Fit(
            dtype, degree, mp.sqrt(low), mp.sqrt(high),
            lambda v: normal_quantile(v * v),
            lambda v, p, fma: p(v - dtype(origin)),
        )  # fmt: skip

    return tuple(map(piece, ends, ends[1:], tail_origins(ends)))


F32, F64 = np.float32, np.float64
HALF_PI = mp.pi / 2
ROOT = mp.sqrt(2)
S_END = (ROOT - 1) / (ROOT + 1)
TABLES = [
    Table("LN_F32", "ln(1 + f) = f + f^2 P(f)", (
        Fit(F32, 8, 1 / ROOT - 1, ROOT - 1, mp.log1p, lambda f, p, fma: fma(f * f, p(f), f)),
    ), "f in [sqrt(1/2) - 1, sqrt(2) - 1]"),
    Table("LN_F64", "ln(m) = 2 s + s^3 P(s^2), s = (m - 1) / (m + 1)", (
        Fit(F64, 6, 2.0**-60, S_END, lambda s: 2 * mp.atanh(s), lambda s, p, fma: fma(s * (s * s), p(s * s), 2 * s)),
    ), "m in [sqrt(1/2), sqrt(2)]"),
    Table("SIN_F32", "sin(pi/2 t) = t P(t^2)", (
        Fit(F32, 3, 2.0**-60, 0.5, lambda t: mp.sin(HALF_PI * t), lambda t, p, fma: t * p(t * t)),
    ), "t in [-1/2, 1/2]"),
    Table("COS_F32", "cos(pi/2 t) = P(t^2)", (
        Fit(F32, 4, 2.0**-60, 0.5, lambda t: mp.cos(HALF_PI * t), lambda t, p, fma: p(t * t), (1,)),
    ), "t in [-1/2, 1/2]"),
    Table("SIN_F64", "sin(pi/2 t) = t P(t^2)", (
        Fit(F64, 6, 2.0**-60, 0.5, lambda t: mp.sin(HALF_PI * t), lambda t, p, fma: t * p(t * t)),
    ), "t in [-1/2, 1/2]"),
    Table("COS_F64", "cos(pi/2 t) = P(t^2)", (
        Fit(F64, 7, 2.0**-60, 0.5, lambda t: mp.cos(HALF_PI * t), lambda t, p, fma: p(t * t), (1,)),
    ), "t in [-1/2, 1/2]"),
    Table("PROBIT_CENTRE_F32", "z = (2 p - 1) P(w - ORIGIN)", (centre(F32, 9),), f"w in [0, {CENTRE_END}]"),
    Table("PROBIT_TAIL_F32", "|z| = P(sqrt(w) - ORIGIN)", tails(F32, 8, TAIL_ENDS_F32), f"w between {TAIL_ENDS_F32}"),
    Table("PROBIT_CENTRE_F64", "z = (2 p - 1) P(w - ORIGIN)", (centre(F64, 20),), f"w in [0, {CENTRE_END}]"),
    Table("PROBIT_TAIL_F64", "|z| = P(sqrt(w) - ORIGIN)", tails(F64, 22, TAIL_ENDS_F64), f"w between {TAIL_ENDS_F64}"),
    Table("ERFCX_F64", "(1 + 2 x) exp(x^2) erfc(x) = P(t), t = (x - K) / (x + K)", (
        Fit(F64, 22, -1, (ERFCX_END - ERFCX_K) / (ERFCX_END + ERFCX_K), scaled_erfc, lambda t, p, fma: p(t)),
    ), f"x in [0, {ERFCX_END}]"),
    Table("EXP_F64", "exp(r) = 1 + (r + r^2 P(r))", (
        Fit(F64, 9, -mp.log(2) / 2, mp.log(2) / 2, mp.exp, lambda r, p, fma: 1 + fma(r * r, p(r), r)),
    ), "|r| <= ln(2)/2"),
]  # fmt: skip


# --- The fit --------------------------------------------------------------------------------------


def fixed(value: Any) -> int:
    return int(mp.nint(mp.ldexp(value, FRACTION_BITS)))


def real(value: int) -> Any:
    return mp.ldexp(mpf(value), -FRACTION_BITS)


def floats(values: Any) -> Any:
    return np.array([float(real(value)) for value in values])


def horner(coefficients: Sequence[int], x: Any) -> Any:
    total = 0 * x
    for coefficient in reversed(coefficients):
        total = ((total * x) >> FRACTION_BITS) + coefficient
    return total


class Problem:
    """P(x) with weight * |target - P(x)| smallest, over the grid of a fit."""

    def __init__(self, fit: Fit) -> None:
        variables, targets, weights = [], [], []
        for x in fit.points():
            variable = []

            def constant(value: int) -> Callable[[Any], Any]:
                return lambda v: variable.append(v) or mpf(value)  # noqa: B023

            rest = fit.form(x, constant(0), exact_fma)
            factor = fit.form(x, constant(1), exact_fma) - rest
            value = fit.exact(x)
            variables.append(fixed(variable[0]))
            targets.append(fixed((value - rest) / factor))
            weights.append(abs(float(factor / value)))
        self.x = np.array(variables, dtype=object)
        self.target = np.array(targets, dtype=object)
        self.weight = np.array(weights)
        self.scale = float(np.abs(floats(self.x)).max())
        self.powers = (floats(self.x) / self.scale)[:, None] ** np.arange(fit.degree + 1)

    def errors(self, coefficients: Sequence[int]) -> Any:
        return floats(self.target - horner(coefficients, self.x)) * self.weight

    def minimax(self, start: Sequence[int], given: int, steps: int) -> list[int]:
        """The best polynomial whose first `given` coefficients are those of `start`."""
        coefficients = list(start)
        free = range(given, len(start))
        count = len(free) + 1
        signs = (-1.0) ** np.arange(count)
        errors = self.errors(coefficients)
        reference = alternation(errors, count)
        if len(reference) < count:
            reference = np.linspace(0, len(errors) - 1, count).round().astype(int)
        best, smallest = list(start), np.abs(errors).max()
        for _ in range(steps):
            largest = np.abs(errors).max()
            matrix = np.column_stack(
                [self.powers[reference][:, given:] * self.weight[reference, None], signs]
            )
            solution = np.linalg.solve(matrix, errors[reference] / largest)
            for k, correction in zip(free, solution):
                coefficients[k] += fixed(mpf(correction) * largest / mpf(self.scale) ** k)
            errors = self.errors(coefficients)
            if np.abs(errors).max() < smallest:
                smallest, best = np.abs(errors).max(), list(coefficients)
            peaks = alternation(errors, count)
            if len(peaks) == count:
                reference = peaks
                if smallest < 1.001 * np.abs(errors[peaks]).min():
                    break
        return best


def alternation(errors: Any, count: int) -> Any:
    """Indices of `count` peaks of alternating sign (fewer if there are fewer), the largest ones."""
    runs = np.split(np.arange(len(errors)), np.flatnonzero(np.diff(np.sign(errors))) + 1)
    peaks = [int(run[np.abs(errors[run]).argmax()]) for run in runs]
    while len(peaks) > count:
        heights = np.abs(errors[peaks])
        if len(peaks) == count + 1:
            del peaks[0 if heights[0] < heights[-1] else -1]
            continue
        pair = int(np.maximum(heights[:-1], heights[1:]).argmin())
        del peaks[pair : pair + 2]
    return np.array(peaks)


def coefficients_of(fit: Fit, problem: Problem) -> list[float]:
    rounded = [fixed(value) for value in fit.head]
    best = problem.minimax(rounded + [0] * (fit.degree + 1 - len(rounded)), len(rounded), 30)
    for k in range(len(rounded), fit.degree + 1):
        best[k] = fixed(mpf(float(fit.dtype(float(real(best[k]))))))
        if k < fit.degree:
            best = problem.minimax(best, k + 1, 6)
    return [float(real(value)) for value in best]


# --- The measurement ------------------------------------------------------------------------------


def exact_fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def working_fma(a: Any, b: Any, c: Any) -> Any:
    """fma of float32 or float64 arrays, but for ties that are broken beyond 2^-64 or 2^-105."""
    if np.result_type(a, b, c) == np.float32:
        return (np.longdouble(a) * np.longdouble(b) + np.longdouble(c)).astype(np.float32)
    product = a * b
    a_high, b_high = (x + 134217729 * x - 134217729 * x for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    part = total - product
    return total + (((product - (total - part)) + (c - part)) + low)


def measure(fit: Fit, problem: Problem, coefficients: list[float]) -> tuple[float, float]:
    """log2 of the polynomial's relative error, and the error in ULP as evaluated."""

    def polynomial(x: Any) -> Any:
        total = np.full_like(x, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = working_fma(total, x, np.full_like(x, coefficient))
        return total

    points = fit.points()
    x = np.array([float(point) for point in points]).astype(fit.dtype)
    values = [fit.exact(point) for point in points]
    high = np.array([float(value) for value in values])
    low = np.array([float(value - mpf(float(value))) for value in values])
    result = np.float64(fit.form(x, polynomial, working_fma))
    ulps = np.abs((result - high) - low) / np.spacing(np.abs(high).astype(fit.dtype))
    exact = np.abs(problem.errors([fixed(mpf(c)) for c in coefficients])).max()
    return float(np.log2(exact)), float(ulps.max())


# --- The header -----------------------------------------------------------------------------------


def literal(value: float, dtype: type[np.floating[Any]]) -> str:
    text = repr(float(value)) if dtype is F64 else str(dtype(value))
    return text if dtype is F64 else text + "f"


def constant_lines() -> Iterator[str]:
    ln2 = mp.log(2)
    high = float(mp.floor(mp.ldexp(ln2, 42)) / mpf(2) ** 42)
    yield "// ln(2) = HI + LO; HI has 42 bits, so that its product with an exponent is exact."
    yield f"inline constexpr double LN2_HI = {high!r};"
    yield f"inline constexpr double LN2_LO = {float(ln2 - high)!r};"
    yield ""
    yield "// The ranges of w = -ln(4 p (1 - p)) and the origins of the normal quantile's pieces."
    for suffix, dtype, ends in ("F32", F32, TAIL_ENDS_F32), ("F64", F64, TAIL_ENDS_F64):
        kind = "float" if dtype is F32 else "double"
        yield f"inline constexpr {kind} PROBIT_CENTRE_END_{suffix} = {literal(CENTRE_END, dtype)};"
        yield (
            f"inline constexpr {kind} PROBIT_CENTRE_ORIGIN_{suffix} = "
            f"{literal(CENTRE_END / 2, dtype)};"
        )
        for what, row in ("END", ends[1:]), ("ORIGIN", tail_origins(ends)):
            values = ", ".join(literal(value, dtype) for value in row)
            yield f"inline constexpr {kind} PROBIT_TAIL_{what}_{suffix}[] = {{{values}}};"
    yield ""
    yield f"inline constexpr double ERFCX_K_F64 = {float(ERFCX_K)!r};"


def table_lines(table: Table) -> Iterator[str]:
    dtype = table.fits[0].dtype
    kind = "float" if dtype is F32 else "double"
    yield f"// {table.formula}, {table.intervals}."
    rows = []
    for fit in table.fits:
        problem = Problem(fit)
        coefficients = coefficients_of(fit, problem)
        exact, ulps = measure(fit, problem, coefficients)
        print(f"{table.name} degree {fit.degree} 2^{exact:.2f} {ulps:.2f} ulp", file=sys.stderr)
        yield f"// Relative error 2^{exact:.1f}; evaluated, {ulps:.2f} ULP."
        rows.append([f"{literal(c, dtype)}," for c in coefficients])
    if len(rows) == 1:
        yield f"inline constexpr {kind} {table.name}[] = {{"
        yield from (f"    {item}" for item in rows[0])
        yield "};"
        return
    yield f"inline constexpr {kind} {table.name}[][{len(rows[0])}] = {{"
    for row in rows:
        yield "    {"
        yield from (f"        {item}" for item in row)
        yield "    },"
    yield "};"


def header() -> str:
    lines = [
        "// Made by tools/polynomials.py, which says how. Coefficients are in ascending order.",
        "#pragma once",
        "",
        "// clang-format off: one coefficient a line",
        "namespace fanin::polynomials {",
        "",
        *constant_lines(),
    ]
    for table in TABLES:
        lines += ["", *table_lines(table)]
    return "\n".join([*lines, "", "}  // namespace fanin::polynomials", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description="Make csrc/polynomials.h.")
    parser.add_argument("--check", action="store_true", help="exit 1 if the file differs")
    text = header()
    if parser.parse_args().check:
        return int(HEADER.read_text() != text)
    HEADER.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
