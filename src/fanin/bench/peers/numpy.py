"""NumPy's Generator: one thread, float32 and float64, the faster of two bit generators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanin.bench.axes import Case
from fanin.bench.peers.peer import Peer, Ways


def fill(case: Case, out: NDArray[Any]) -> Ways:
    return {
        name: partial(method, out=out, dtype=out.dtype) for name, method in _methods(case).items()
    }


def fresh(case: Case) -> Ways:
    return {
        name: partial(method, case.size, dtype=case.dtype)
        for name, method in _methods(case).items()
    }


def _methods(case: Case) -> dict[str, Callable[..., Any]]:
    attribute = {"normal": "standard_normal", "uniform": "random"}.get(case.distribution)
    if attribute is None or case.dtype not in ("float32", "float64"):
        return {}
    bits = {"SFC64": np.random.SFC64(0), "PCG64": np.random.PCG64(0)}
    return {name: getattr(np.random.Generator(source), attribute) for name, source in bits.items()}


PEER = Peer(
    name="NumPy",
    package="numpy",
    install="pip install numpy",
    threads="one",
    load=lambda: None,
    fill=fill,
    fresh=fresh,
)
