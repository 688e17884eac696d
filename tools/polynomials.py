"""Makes csrc/polynomials.h: `python tools/polynomials.py`; `--check` only compares the file.

Here is what the polynomials are for, the formula, the function and the interval of each; minimax.py
finds them. The normal quantile is 2 p - 1 times a polynomial in w = -ln(4 p (1 - p)) in the centre,
a polynomial in sqrt(w) in the tails (Giles, "Approximating the erfinv function", GPU Computing Gems
2, 2011), here cut in more pieces to reach the least p. The variable of exp(x^2) erfc(x) is that of
Shepherd and Laframboise (Math. Comp. 36, 1981). Tried for the float32 tail, in place of two pieces
of degree 8: one of degree 14; and one of degree 9 in 1 / sqrt(w), which costs a division.
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

from minimax import Fit

HEADER = Path(__file__).resolve().parents[1] / "csrc" / "polynomials.h"
F32, F64 = np.float32, np.float64
Dtype = type[np.floating[Any]]
Exact = Callable[[Any], Any]

# The ends of the quantile's pieces, of w. 3 sigma are at 5.22, p = 2^-33 at 21.49.
CENTRE_END = 5.25
TAIL_ENDS = {F32: (21.5, 88.0), F64: (21.5, 110.0, 745.0)}  # past the least p > 0
ERFCX_K = 3.75
ERFCX_END = 28.0


@dataclass(frozen=True)
class Table:
    """One array of the header: a polynomial, or the pieces of one."""

    name: str
    formula: str
    fits: dict[str, Fit]  # by the interval

    @property
    def dtype(self) -> Dtype:
        return next(iter(self.fits.values())).dtype


def tables() -> Iterator[Table]:
    octave = "m in [sqrt(1/2), sqrt(2)]"
    yield Table("LN_F32", "ln(m) = f + f^2 P(f), f = m - 1", {octave: ln_f32(8)})
    yield Table("LN_F64", "ln(m) = 2 s + s^3 P(s^2), s = (m - 1) / (m + 1)", {octave: ln_f64(6)})
    angle = "|t| <= 1/2"
    yield Table("SIN_F32", "sin(pi/2 t) = t P(t^2)", {angle: sine(F32, 3)})
    yield Table("SIN_F64", "sin(pi/2 t) = t P(t^2)", {angle: sine(F64, 6)})
    yield Table("COS_F32", "cos(pi/2 t) = P(t^2)", {angle: cosine(F32, 4)})
    yield Table("COS_F64", "cos(pi/2 t) = P(t^2)", {angle: cosine(F64, 7)})
    for suffix, dtype, centre_degree, tail_degree in ("F32", F32, 9, 8), ("F64", F64, 20, 21):
        yield Table(
            f"PROBIT_CENTRE_{suffix}",
            "z = (2 p - 1) P(w - ORIGIN), w = -ln(4 p (1 - p))",
            {f"w in [0, {CENTRE_END}]": quantile_centre(dtype, centre_degree)},
        )
        starts = (CENTRE_END, *TAIL_ENDS[dtype])
        yield Table(
            f"PROBIT_TAIL_{suffix}",
            "|z| = P(sqrt(w) - ORIGIN)",
            {
                f"w in [{low}, {high}]": quantile_tail(dtype, tail_degree, low, high)
                for low, high in zip(starts, TAIL_ENDS[dtype], strict=False)
            },
        )
    formula = "(1 + 2 x) exp(x^2) erfc(x) = P(t), t = (x - K) / (x + K)"
    yield Table("ERFCX_F64", formula, {f"x in [0, {ERFCX_END}]": erfcx(22)})
    yield Table("EXP_F64", "exp(r) = 1 + (r + r^2 P(r))", {"|r| <= ln(2) / 2": exponential(9)})


# --- The functions --------------------------------------------------------------------------------


def ln_f32(degree: int) -> Fit:
    low, high = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
    return Fit(F32, degree, low, high, mp.log1p, lambda f, p, fma: fma(f * f, p(f), f))


def ln_f64(degree: int) -> Fit:
    def form(s: Any, p: Callable[[Any], Any], fma: Callable[..., Any]) -> Any:
        s2 = s * s
        return fma(s * s2, p(s2), 2 * s)

    high = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)
    return Fit(F64, degree, 0, high, lambda s: 2 * mp.atanh(s), form)


def sine(dtype: Dtype, degree: int) -> Fit:
    return Fit(dtype, degree, 0, 0.5, lambda t: mp.sinpi(t / 2), lambda t, p, fma: t * p(t * t))


def cosine(dtype: Dtype, degree: int) -> Fit:
    at_0 = (1,)
    return Fit(dtype, degree, 0, 0.5, lambda t: mp.cospi(t / 2), lambda t, p, fma: p(t * t), at_0)


def exponential(degree: int) -> Fit:
    end = mp.log(2) / 2
    return Fit(F64, degree, -end, end, mp.exp, lambda r, p, fma: 1 + fma(r * r, p(r), r))


def erfcx(degree: int) -> Fit:
    def exact(t: Any) -> Any:
        x = ERFCX_K * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    high = mpf(ERFCX_END - ERFCX_K) / (ERFCX_END + ERFCX_K)
    return Fit(F64, degree, -1, high, exact, lambda t, p, fma: p(t))


def quantile_centre(dtype: Dtype, degree: int) -> Fit:
    return around_origin(
        dtype, degree, 0, CENTRE_END, lambda w: quantile(w) / mp.sqrt(-mp.expm1(-w))
    )


def quantile_tail(dtype: Dtype, degree: int, low: float, high: float) -> Fit:
    return around_origin(dtype, degree, mp.sqrt(low), mp.sqrt(high), lambda v: quantile(v * v))


def quantile(w: Any) -> Any:
    """z > 0 with 4 p (1 - p) = exp(-w), p = Phi(z), by Newton's method from above."""
    z = mp.sqrt(2 * w)
    while True:
        q = mp.erfc(z / mp.sqrt(2)) / 2
        log = -mp.log1p(-(mp.erf(z / mp.sqrt(2)) ** 2)) if z < 2 else -mp.log(4 * q * (1 - q))
        step = (log - w) * q * (1 - q) / (mp.npdf(z) * (1 - 2 * q))
        z -= step
        if abs(step) < z * mpf(2) ** -80:  # the next step is below 2^-150
            return z


def around_origin(dtype: Dtype, degree: int, low: Any, high: Any, exact: Exact) -> Fit:
    """The fit of a function by powers around a point next to the middle of [low, high].

    The value there is the lowest coefficient, whose rounding can be most of the error: the point is
    the one of 64 where the value is nearest to a number of the dtype.
    """
    middle = dtype(float(low + high) / 2)
    candidates = [float(middle + k * np.spacing(middle)) for k in range(64)]

    def rounding(x: float) -> Any:
        value = exact(mpf(x))
        return abs(value - mpf(float(dtype(float(value)))))

    origin = min(candidates, key=rounding)
    return Fit(dtype, degree, low, high, exact, lambda x, p, fma: p(x), origin=origin)


# --- The header -----------------------------------------------------------------------------------


PREAMBLE = """\
// The polynomials of the core, lowest coefficient first. Made by tools/polynomials.py.
//
// Beside each: the largest relative error of the formula with these coefficients, and that of its
// value as computed (Horner, fused multiply-adds) at some 400 points, in ULP.
#pragma once

// clang-format off: one coefficient a line
namespace fanin::polynomials {
"""


def header() -> str:
    ln2_high = mp.floor(mp.ldexp(mp.log(2), 42)) / mpf(2) ** 42
    lines = [
        "// ln(2) = HI + LO. HI has 42 bits: its product with an exponent is exact.",
        declaration("LN2_HI", F64, float(ln2_high)),
        declaration("LN2_LO", F64, float(mp.log(2) - ln2_high)),
        "",
        "// The ends of the intervals of w, and K, in the tables below.",
        declaration("PROBIT_CENTRE_END_F32", F32, CENTRE_END),
        declaration("PROBIT_CENTRE_END_F64", F64, CENTRE_END),
        declaration("PROBIT_TAIL_END_F32", F32, TAIL_ENDS[F32]),
        declaration("PROBIT_TAIL_END_F64", F64, TAIL_ENDS[F64]),
        declaration("ERFCX_K_F64", F64, ERFCX_K),
    ]
    for table in tables():
        lines += ["", *table_lines(table)]
    return "\n".join([PREAMBLE, *lines, "", "}  // namespace fanin::polynomials", ""])


def table_lines(table: Table) -> Iterator[str]:
    yield f"// {table.formula}"
    for interval, fit in table.fits.items():
        error = float(mp.ceil(10 * mp.log(fit.error(), 2)) / 10)
        computed = f"computed {fit.ulps():.2f} ULP"
        yield f"// {interval}: degree {fit.degree}, error 2^{error:.1f}, {computed}"
    fits = list(table.fits.values())
    if any(fit.origin for fit in fits):
        origins = [fit.origin for fit in fits]
        name = table.name.replace("_F", "_ORIGIN_F")
        yield declaration(name, table.dtype, origins if len(fits) > 1 else origins[0])
    rows = [[f"{literal(c, table.dtype)}," for c in fit.coefficients] for fit in fits]
    if len(rows) == 1:
        yield f"{start(table.dtype)} {table.name}[] = {{"
        yield from rows[0]
    else:
        yield f"{start(table.dtype)} {table.name}[][{len(rows[0])}] = {{"
        for row in rows:
            yield from ["{", *row, "},"]
    yield "};"


def declaration(name: str, dtype: Dtype, value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        values = ", ".join(literal(v, dtype) for v in value)
        return f"{start(dtype)} {name}[] = {{{values}}};"
    return f"{start(dtype)} {name} = {literal(value, dtype)};"


def start(dtype: Dtype) -> str:
    return f"inline constexpr {'float' if dtype is F32 else 'double'}"


def literal(value: float, dtype: Dtype) -> str:
    """The shortest decimals that read back as the value."""
    return f"{np.float32(value)!s}f" if dtype is F32 else repr(value)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make csrc/polynomials.h.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it differs")
    check = parser.parse_args().check
    text = header()
    if check and text != HEADER.read_text():
        print(f"{HEADER} is not what {Path(__file__).name} makes", file=sys.stderr)
        return 1
    if not check:
        HEADER.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
