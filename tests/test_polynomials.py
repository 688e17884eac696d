"""The polynomials of the core, as they stand in csrc/polynomials.h, against mpmath.

Each formula is evaluated with many digits, for the error that the header states, and in the
precision of its type, where mpmath rounds as IEEE arithmetic does, for the ULP that it states.
"""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mpmath import mp, mpf

ROOT = Path(__file__).resolve().parents[1]
HEADER = (ROOT / "csrc" / "polynomials.h").read_text(encoding="utf-8")
MANY = 240  # bits
POINTS = 60  # of a grid, and as many random ones


# --- What the header says -------------------------------------------------------------------------


def numbers(text):
    """The C++ literals in the text, rounded as a compiler does."""
    literals = re.findall(r"-?\d[\d.]*(?:e[-+]?\d+)?f?", text)
    return [mpf(x.removesuffix("f"), prec=24 if x.endswith("f") else 53) for x in literals]


def declared(name):
    return numbers(re.search(rf" {name}(?:\[\])? = ([^;]*);", HEADER)[1])


def stated_pieces():
    """(name, index of the piece, coefficients, log2 of the error, ULP) of each polynomial."""
    for block in HEADER.split("\n\n"):
        stated = re.findall(r"degree (\d+), error 2\^(-[\d.]+), computed ([\d.]+) ULP", block)
        if stated:
            name, values = re.findall(r" (\w+)(?:\[\d*\])+ = ([^;]*);", block)[-1]
            rows = values.split("},")[: len(stated)]
            for piece, (row, (degree, error, ulps)) in enumerate(zip(rows, stated, strict=True)):
                coefficients = numbers(row)
                assert len(coefficients) == int(degree) + 1
                yield name, piece, coefficients, float(error), float(ulps)


# --- What it should be ----------------------------------------------------------------------------

# By name: the interval of x, the function, and the formula with P in the place of the polynomial.
ROOT_2 = mp.sqrt(2)
F_END, S_END, R_END = ROOT_2 - 1, (ROOT_2 - 1) / (ROOT_2 + 1), mp.log(2) / 2
FORMULAS = {
    "LN_F32": ((1 / ROOT_2 - 1, F_END), mp.log1p, lambda f, p: fma(f * f, p(f), f)),
    "LN_F64": (
        (-S_END, S_END),
        lambda s: 2 * mp.atanh(s),
        lambda s, p: fma(s * (s * s), p(s * s), 2 * s),
    ),
    "SIN_F32": ((-0.5, 0.5), lambda t: mp.sinpi(t / 2), lambda t, p: t * p(t * t)),
    "SIN_F64": ((-0.5, 0.5), lambda t: mp.sinpi(t / 2), lambda t, p: t * p(t * t)),
    "COS_F32": ((-0.5, 0.5), lambda t: mp.cospi(t / 2), lambda t, p: p(t * t)),
    "COS_F64": ((-0.5, 0.5), lambda t: mp.cospi(t / 2), lambda t, p: p(t * t)),
    "ERFCX_F64": ((-1, (28 - 3.75) / (28 + 3.75)), lambda t: scaled_erfc(t), lambda t, p: p(t)),
    "EXP_F64": ((-R_END, R_END), mp.exp, lambda r, p: 1 + fma(r * r, p(r), r)),
}


def formula(name, piece):
    if name in FORMULAS:
        return FORMULAS[name]
    kind, suffix = name.removeprefix("PROBIT_").split("_")
    origin = declared(f"PROBIT_{kind}_ORIGIN_{suffix}")[piece]
    ends = [*declared(f"PROBIT_CENTRE_END_{suffix}"), *declared(f"PROBIT_TAIL_END_{suffix}")]
    if kind == "CENTRE":
        function = lambda w: quantile(w) / mp.sqrt(1 - mp.exp(-w))  # noqa: E731
        return (0, ends[0]), function, lambda w, p: p(w - origin)
    interval = (mp.sqrt(ends[piece]), mp.sqrt(ends[piece + 1]))
    return interval, lambda v: quantile(v * v), lambda v, p: p(v - origin)


def quantile(w):
    """z > 0 with 4 p (1 - p) = exp(-w), p = Phi(z)."""

    def excess(z):
        tail = mp.erfc(z / mp.sqrt(2))  # 2 (1 - p)
        return mp.log(tail * (2 - tail)) + w

    return mp.findroot(excess, (0.9 * mp.sqrt(2 * w), mp.sqrt(2 * w)))


def scaled_erfc(t):
    x = declared("ERFCX_K_F64")[0] * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def fma(a, b, c):
    return mp.fadd(mp.fmul(a, b, exact=True), c)


def points(low, high, bits):
    """Numbers of the type in [low, high], to its very ends, but not 0."""
    draw = random.Random(1)
    shares = [mp.sinpi(mpf(k) / (2 * POINTS)) ** 2 for k in range(POINTS + 1)]
    shares += [draw.random() for _ in range(POINTS)]
    inside = (low + (high - low) * share for share in shares)
    return [x for x in (mpf(x, prec=bits) for x in inside) if x != 0]


@pytest.mark.parametrize(
    ("name", "piece", "coefficients", "error", "ulps"),
    [pytest.param(*p, id=f"{p[0]}-{p[1]}") for p in stated_pieces()],
)
def test_errors_are_those_stated(name, piece, coefficients, error, ulps):
    bits = 24 if name.endswith("F32") else 53
    interval, function, form = formula(name, piece)

    def polynomial(x):
        total = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            total = fma(total, x, c)
        return total

    largest = largest_ulps = 0
    with mp.workprec(MANY):
        for x in points(*interval, bits):
            value = function(x)
            largest = max(largest, abs(form(x, polynomial) / value - 1))
            with mp.workprec(bits):
                computed = form(x, polynomial)
            ulp = mpf(2) ** (mp.frexp(value)[1] - bits)
            largest_ulps = max(largest_ulps, abs(computed - value) / ulp)
        assert error - 0.3 < mp.log(largest, 2) < error + 0.02
    assert ulps - 0.35 < largest_ulps < ulps + 0.25


def test_errors_are_small_enough():
    for name, piece, _, error, ulps in stated_pieces():
        assert error <= (-25 if name.endswith("F32") else -53.2), (name, piece)
        assert ulps < 1.3, (name, piece)


def test_every_formula_is_there():
    names = {name for name, *_ in stated_pieces()}
    assert names == set(FORMULAS) | {
        f"PROBIT_{kind}_{suffix}" for kind in ("CENTRE", "TAIL") for suffix in ("F32", "F64")
    }


def test_ln2_in_two_parts():
    (high,), (low,) = declared("LN2_HI"), declared("LN2_LO")
    with mp.workprec(MANY):
        assert high * 2**42 == mp.floor(mp.log(2) * 2**42)
        assert abs(high + low - mp.log(2)) < mpf(2) ** -97


def test_the_script_makes_the_header():
    script = ROOT / "tools" / "polynomials.py"
    check = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
