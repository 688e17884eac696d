"""The core's matrix product: each element's sum in the order that is written down, bit for bit."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import reference
from fanin import _core

DEPTH = 128  # terms a block
SIZES = [(1, 1, 1), (7, 5, 3), (12, 32, 128), (13, 33, 129), (100, 70, 300), (97, 800, 257)]


def operands(rows, columns, depth, dtype):
    random = np.random.default_rng(rows + columns)
    return (
        random.standard_normal((rows, depth)).astype(dtype),
        random.standard_normal((depth, columns)).astype(dtype),
    )


def product(a, b, threads=2):
    c = np.full((len(a), b.shape[1]), np.nan, a.dtype)
    _core.multiply(a, b, c, threads)
    return c


def by_definition(a, b):
    """Sums of DEPTH terms from 0, one fused multiply-add a term; then the sum of the sums."""
    if a.dtype == np.float32:
        fma = reference.fma32
    else:
        fma = np.vectorize(lambda *x: reference.fma64(*map(float, x)), otypes=[np.float64])
    total = np.zeros((len(a), b.shape[1]), a.dtype)
    for first in range(0, len(b), DEPTH):
        block = np.zeros_like(total)
        for k in range(first, min(first + DEPTH, len(b))):
            block = fma(*np.broadcast_arrays(a[:, k, None], b[k], block))
        total = total + block
    return total


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_float32(size):
    a, b = operands(*size, np.float32)
    assert np.array_equal(product(a, b), by_definition(a, b))


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 9, 3), (7, 3, 140)], ids=str)
def test_float64(size):
    a, b = operands(*size, np.float64)
    assert np.array_equal(product(a, b), by_definition(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accuracy(dtype):
    a, b = operands(50, 60, 1000, dtype)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    np.testing.assert_allclose(product(a, b), exact, rtol=0, atol=600 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads(dtype):
    a, b = operands(301, 900, 400, dtype)
    expected = product(a, b, threads=1)
    for threads in (2, 3, 7):
        assert np.array_equal(product(a, b, threads), expected)


def test_an_infinite_element_spoils_its_row_alone():
    a, b = operands(50, 60, 200, np.float32)
    a[7, 150] = np.inf
    c = product(a, b)
    assert not np.isfinite(c[7]).any()
    assert np.isfinite(np.delete(c, 7, axis=0)).all()


def digest():
    products = [product(*operands(100, 70, 300, dtype)) for dtype in (np.float32, np.float64)]
    return hashlib.sha256(b"".join(c.tobytes() for c in products)).hexdigest()


@pytest.mark.parametrize("simd", _core.simd_names())
def test_instruction_sets(simd):
    run = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "FANIN_SIMD": simd},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == digest()


if __name__ == "__main__":
    print(digest())
