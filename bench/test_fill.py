"""The regression suite: fills of every size, dtype and distribution, beside torch and NumPy.

pytest bench --benchmark-group-by=param:distribution,param:dtype,param:size

The axes and the contestants are those of `fanin bench`.
"""

from __future__ import annotations

import numpy as np
import pytest

from fanin.bench import axes
from fanin.bench.peers import numpy, own, torch
from fanin.output import numpy_dtype

SIZES = [size for size in axes.SIZES if size <= 2**26]
FILLS = {"fanin": own.fill, "torch": torch.fill}


@pytest.fixture
def out(size, dtype):
    """A buffer that was touched before."""
    return np.full(size, 0, numpy_dtype(dtype))


def run(benchmark, fill, case, out):
    way = next(iter(fill(case, out).values()))
    benchmark(way)
    assert np.count_nonzero(out) > case.size // 2


@pytest.mark.parametrize("library", FILLS)
@pytest.mark.parametrize("threads", axes.default_threads())
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", axes.DEFAULT_DTYPES)
@pytest.mark.parametrize("distribution", axes.DISTRIBUTIONS)
def test_fill(benchmark, library, distribution, dtype, size, threads, out):
    run(benchmark, FILLS[library], axes.Case(distribution, dtype, size, threads), out)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_numpy(benchmark, distribution, dtype, size, out):
    run(benchmark, numpy.fill, axes.Case(distribution, dtype, size, 1), out)
