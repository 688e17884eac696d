"""The regression suite: fills of every size, dtype and distribution, beside torch and NumPy.

pytest bench --benchmark-group-by=param:distribution,param:dtype,param:size
"""

from __future__ import annotations

import pytest
import torch

import axes


@pytest.fixture
def out(size, dtype):
    """A buffer that was touched before."""
    return torch.zeros(size, dtype=axes.DTYPES[dtype])


@pytest.mark.parametrize("library", axes.FILLS)
@pytest.mark.parametrize("threads", axes.THREADS)
@pytest.mark.parametrize("size", axes.SIZES)
@pytest.mark.parametrize("dtype", axes.DTYPES)
@pytest.mark.parametrize("distribution", axes.DISTRIBUTIONS)
def test_fill(benchmark, library, distribution, dtype, size, threads, out):
    benchmark(axes.FILLS[library], distribution, out, threads)
    assert out.count_nonzero() > size // 2


@pytest.mark.parametrize("size", axes.SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_numpy(benchmark, distribution, dtype, size, out):
    benchmark(axes.numpy_filler(distribution, dtype), out.numpy())
    assert out.count_nonzero() > size // 2
