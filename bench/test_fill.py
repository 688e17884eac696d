"""The regression suite: fills of every size, dtype and distribution, beside torch and NumPy.

pytest bench/test_fill.py --benchmark-group-by=param:distribution,param:dtype,param:size
"""

from __future__ import annotations

import pytest
import torch

import axes


@pytest.fixture
def out(size, dtype):
    """A buffer that was touched before."""
    return torch.zeros(size, dtype=axes.DTYPES[dtype])


@pytest.mark.parametrize("threads", axes.THREADS)
@pytest.mark.parametrize("size", axes.SIZES)
@pytest.mark.parametrize("dtype", axes.DTYPES)
@pytest.mark.parametrize("distribution", axes.DISTRIBUTIONS)
@pytest.mark.parametrize("fill", [axes.fill_with_fanin, axes.fill_with_torch])
def test_fill(benchmark, fill, distribution, dtype, size, threads, out):
    benchmark(fill, distribution, out, threads)


@pytest.mark.parametrize("size", axes.SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_numpy(benchmark, distribution, dtype, size, out):
    benchmark(axes.numpy_filler(distribution, dtype), out.numpy())
