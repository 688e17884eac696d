"""The fills whose hashes are committed in data/hashes.json, and how to make and hash them.

`python tests/fills.py` prints the hashes of this machine; they replace the file only when the
stream's bits change on purpose, together with STREAM_VERSION.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from fanin.initializers import (
    Constant,
    Initializer,
    MambaALog,
    MambaDtBias,
    Normal,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
)
from fanin.output import ITEMSIZE, numpy_dtype

SEED, NAME = 42, "transformer.wte.weight"
COUNT = 2**20
INITIALIZERS: dict[str, Initializer] = {
    "constant": Constant(0.3),
    "uniform": Uniform(-0.05, 0.05),
    "normal": Normal(0.25, 2.0),
    "truncated_normal": TruncatedNormal(),
    "one_sided": TruncatedNormal(low=1.0, high=math.inf),
    "far": TruncatedNormal(low=12.0, high=math.inf),
}
CASES = [(initializer, dtype) for initializer in INITIALIZERS for dtype in ITEMSIZE]

# Matrices as a whole: of several panels of reflectors, and of odd sizes.
MATRICES: dict[str, tuple[Initializer, tuple[int, int]]] = {
    "orthogonal": (Orthogonal(1.5), (301, 422)),
    "orthogonal_tall": (Orthogonal(1.5), (422, 301)),
    "sparse": (Sparse(0.75), (301, 422)),
    "mamba_a_log": (MambaALog(), (301, 422)),
    "mamba_dt_bias": (MambaDtBias(0.003, 5.0, 0.01), (301, 422)),
}
MATRIX_CASES = [(matrix, dtype) for matrix in MATRICES for dtype in ITEMSIZE]


def fill(initializer: str, out: Any, **options: Any) -> Any:
    """Fill `out` with the matrix of COUNT elements, or a region of it."""
    return INITIALIZERS[initializer].fill(out, seed=SEED, name=NAME, **options)


def sample(initializer: str, dtype: str, threads: int | None = None) -> np.ndarray:
    """Sample all COUNT elements."""
    return fill(initializer, np.empty(COUNT, numpy_dtype(dtype)), threads=threads)


def sample_matrix(matrix: str, dtype: str, threads: int | None = None) -> np.ndarray:
    """Sample one of the matrices."""
    initializer, shape = MATRICES[matrix]
    out = np.empty(shape, numpy_dtype(dtype))
    return initializer.fill(out, seed=SEED, name=NAME, threads=threads)


def sha256(array: np.ndarray | bytes) -> str:
    """Hash the bytes of the elements in row-major order."""
    return hashlib.sha256(array if isinstance(array, bytes) else array.tobytes()).hexdigest()


def committed() -> dict[str, str]:
    """Return the hashes that every machine must give."""
    return json.loads((Path(__file__).parent / "data" / "hashes.json").read_text())


def key(initializer: str, dtype: str) -> str:
    """Name a fill in the file of hashes."""
    return f"{initializer} {dtype}"


def all_hashes(threads: int | None = None) -> dict[str, str]:
    """Hash every fill."""
    return {
        **{key(*case): sha256(sample(*case, threads=threads)) for case in CASES},
        **{key(*case): sha256(sample_matrix(*case, threads=threads)) for case in MATRIX_CASES},
    }


if __name__ == "__main__":
    print(json.dumps(all_hashes(), indent=1))
