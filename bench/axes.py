"""The axes that benchmarks vary, and the samplers that stand side by side on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fanin.initializers import Initializer, Normal, TruncatedNormal, Uniform

SIZES = [2**10, 2**16, 2**20, 2**26]
THREADS = [1, 2]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
DISTRIBUTIONS: dict[str, Initializer] = {
    "normal": Normal(),
    "uniform": Uniform(),
    "truncated normal": TruncatedNormal(),
}

_TORCH: dict[str, Callable[[torch.Tensor], Any]] = {
    "normal": lambda out: out.normal_(),
    "uniform": lambda out: out.uniform_(),
    "truncated normal": lambda out: torch.nn.init.trunc_normal_(out),
}


def fill_with_fanin(distribution: str, out: torch.Tensor, threads: int) -> None:
    """Fill a tensor in place with fanin."""
    DISTRIBUTIONS[distribution].fill(out, seed=0, name="bench", threads=threads)


def fill_with_torch(distribution: str, out: torch.Tensor, threads: int) -> None:
    """Fill a tensor in place with torch; nn.init's truncated normal has bounds of +-2."""
    torch.set_num_threads(threads)
    _TORCH[distribution](out)


def numpy_filler(distribution: str, dtype: str) -> Callable[[np.ndarray], Any] | None:
    """NumPy's fastest way to fill an array of the dtype; None where it has none."""
    generator = np.random.Generator(np.random.SFC64(0))
    if dtype not in ("float32", "float64") or distribution == "truncated normal":
        return None
    method = generator.standard_normal if distribution == "normal" else generator.random
    return lambda out: method(out=out, dtype=out.dtype)


FILLS: dict[str, Callable[[str, torch.Tensor, int], None]] = {
    "fanin": fill_with_fanin,
    "torch": fill_with_torch,
}
