"""torch: the in-place samplers of a tensor, and `nn.init.trunc_normal_`, which has no other.

`trunc_normal_` draws whole tensors of normals until each element was once within the bounds: with
bounds at 2 standard deviations about three of them for a thousand elements, six for 2^24, each
with a mask and a copy; with bounds that no value reaches (from 6 standard deviations on, measured),
one, at four to five times the speed. Narrower bounds or those of a tail make it draw uniforms
instead, which is no faster. So both cases stand on the axis, and fanin has the same standard
deviation and the same bounds in each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from fanin.bench.axes import Case, Function
from fanin.bench.measuring import Run
from fanin.bench.peers.peer import Peer, Ways


def load() -> Any:
    import torch

    return torch


def fill(case: Case, out: NDArray[Any]) -> Ways:
    sampler = _sampler(case)
    tensor = as_tensor(out, case.dtype)
    return {"": lambda: sampler(tensor)}


def fresh(case: Case) -> Ways:
    torch, sampler = load(), _sampler(case)
    dtype = getattr(torch, case.dtype)
    return {"": lambda: sampler(torch.empty(case.size, dtype=dtype))}


def function(pair: Function, out: NDArray[Any], dtype: str, threads: int) -> Run:
    """The function of torch.nn.init, on a tensor with the memory of `out`."""
    torch = load()
    torch.set_num_threads(threads)
    initializer = getattr(torch.nn.init, pair.torch)
    tensor = as_tensor(out, dtype)
    return lambda: initializer(tensor, **pair.torch_arguments)


def as_tensor(array: NDArray[Any], dtype: str) -> Any:
    """A tensor with the memory of the array; through integers, as NumPy has no bfloat16."""
    torch = load()
    integers = array.view(f"i{array.itemsize}")
    return torch.from_numpy(integers).view(getattr(torch, dtype))


def _sampler(case: Case) -> Callable[[Any], object]:
    torch = load()
    torch.set_num_threads(case.threads)
    truncated = torch.nn.init.trunc_normal_
    samplers: dict[str, Callable[[Any], object]] = {
        "normal": lambda out: out.normal_(),
        "uniform": lambda out: out.uniform_(),
        "truncated_normal": lambda out: truncated(out),
        "wide_truncated_normal": lambda out: truncated(out, std=0.02),
    }
    return samplers[case.distribution]


PEER = Peer(
    name="torch",
    package="torch",
    install='pip install "fanin[torch]"',
    threads="any",
    load=load,
    fill=fill,
    fresh=fresh,
)
