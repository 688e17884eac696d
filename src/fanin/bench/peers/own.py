"""fanin itself, through the initializer value that a named function makes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanin.bench.axes import DISTRIBUTIONS, Case
from fanin.bench.peers.peer import Peer, Ways
from fanin.initializers import parse
from fanin.output import numpy_dtype


def fill(case: Case, out: NDArray[Any]) -> Ways:
    init = parse(DISTRIBUTIONS[case.distribution])
    return {"": lambda: init.fill(out, seed=0, name="bench", threads=case.threads)}


def fresh(case: Case) -> Ways:
    init, dtype = parse(DISTRIBUTIONS[case.distribution]), numpy_dtype(case.dtype)

    def run() -> object:
        return init.fill(np.empty(case.size, dtype), seed=0, name="bench", threads=case.threads)

    return {"": run}


PEER = Peer(
    name="fanin",
    package=None,
    install="pip install .",
    threads="any",
    load=lambda: None,
    fill=fill,
    fresh=fresh,
)
