"""Calls of the core's orthogonal fill, and the matrices whose hashes are committed.

`python tests/orthogonal_fills.py` prints the hashes of this machine; they replace
data/orthogonal_hashes.json only when the stream's bits change on purpose, together with
STREAM_VERSION.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fanin import _core
from fanin.output import numpy_dtype

POSITION = 2**64 - 100_000  # the stream's end, and then its beginning
SHORT, LONG, GAIN = 140, 300, 1.5  # two panels, the last blocks cut
DTYPES = ["float64", "float32", "bfloat16"]


def fill(
    short: int,
    long: int,
    dtype: str = "float32",
    *,
    out: np.ndarray | None = None,
    matrices: Sequence[int] = (0,),
    vectors: Any = None,
    components: Any = None,
    gain: float = 1.0,
    threads: int = 2,
) -> np.ndarray:
    """Fill `out` (matrices, vectors, components), or a new array."""
    vectors = range(short) if vectors is None else vectors
    components = range(long) if components is None else components
    if out is None:
        shape = len(matrices), len(vectors), len(components)
        out = np.full(shape, -9, numpy_dtype(dtype))
    axes = (
        _places(index, stride)
        for index, stride in zip((matrices, vectors, components), out.strides, strict=True)
    )
    address = out.__array_interface__["data"][0]
    _core.fill_orthogonal(POSITION, short, long, gain, dtype, *axes, address, threads)
    return out


def _places(index: Any, stride: int) -> tuple[np.ndarray, np.ndarray]:
    index = np.ascontiguousarray(index, np.int64)
    return index, np.arange(index.size, dtype=np.int64) * stride


def committed() -> dict[str, str]:
    """Return the hashes that every machine must give."""
    path = Path(__file__).parent / "data" / "orthogonal_hashes.json"
    return json.loads(path.read_text())


def hashes(threads: int = 2) -> dict[str, str]:
    """Hash two matrices of each dtype."""
    return {
        dtype: hashlib.sha256(
            fill(SHORT, LONG, dtype, matrices=range(2), gain=GAIN, threads=threads).tobytes()
        ).hexdigest()
        for dtype in DTYPES
    }


if __name__ == "__main__":
    print(json.dumps(hashes(), indent=1))
