"""Memory's own speed: one value into every element, the faster of torch's and NumPy's way.

No sampler can be faster than the better of these, but for streaming stores, which skip reading the
memory before it is written; neither of the two uses them at every size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanin.bench.axes import Case
from fanin.bench.peers import torch as torch_peer
from fanin.bench.peers.peer import Peer, Ways
from fanin.output import numpy_dtype


def fill(case: Case, out: NDArray[Any]) -> Ways:
    ways: Ways = {}
    if case.threads == 1:
        value = out.dtype.type(0.5)
        ways["NumPy fill"] = lambda: out.fill(value)
    if torch := _torch():
        torch.set_num_threads(case.threads)
        tensor = torch_peer.as_tensor(out, case.dtype)
        ways["torch fill_"] = lambda: tensor.fill_(0.5)
    return ways


def fresh(case: Case) -> Ways:
    ways: Ways = {}
    if case.threads == 1:
        ways["NumPy full"] = lambda: np.full(case.size, 0.5, numpy_dtype(case.dtype))
    if torch := _torch():
        torch.set_num_threads(case.threads)
        dtype = getattr(torch, case.dtype)
        ways["torch full"] = lambda: torch.full((case.size,), 0.5, dtype=dtype)
    return ways


def _torch() -> Any:
    try:
        return torch_peer.load()
    except ImportError:
        return None


PEER = Peer(
    name="memory",
    package=None,
    install="pip install numpy",
    threads="any",
    load=lambda: None,
    fill=fill,
    fresh=fresh,
)
