"""jax.random on the CPU, compiled: all cores (XLA's threads cannot be counted out), new arrays.

JAX fills nothing in place: a warm buffer and a fresh one are the same to it. The faster of its
generators takes part: threefry, its default, or XLA's own (rbg).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from fanin.bench.axes import Case
from fanin.bench.measuring import Run
from fanin.bench.peers.peer import Peer, Ways

GENERATORS = {"threefry2x32": "threefry", "rbg": "rbg"}


def load() -> Any:
    import jax

    return jax


def fill(case: Case, out: NDArray[Any]) -> Ways:
    return {name: _compiled(case, out.size, generator) for generator, name in GENERATORS.items()}


def fresh(case: Case) -> Ways:
    return {name: _compiled(case, case.size, generator) for generator, name in GENERATORS.items()}


def _compiled(case: Case, size: int, generator: str) -> Run:
    jax = load()
    random = jax.random
    samplers: dict[str, Callable[[Any, str], Any]] = {
        "normal": lambda key, dtype: random.normal(key, (size,), dtype),
        "uniform": lambda key, dtype: random.uniform(key, (size,), dtype),
        "truncated_normal": lambda key, dtype: random.truncated_normal(key, -2, 2, (size,), dtype),
        "wide_truncated_normal": lambda key, dtype: (
            0.02 * random.truncated_normal(key, -100, 100, (size,), dtype)
        ),
    }
    sampler = samplers[case.distribution]

    @functools.cache
    def compiled() -> tuple[Any, Any]:
        with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):  # float64 is float64
            key = random.key(0, impl=generator)
            return jax.jit(lambda key: sampler(key, case.dtype)).lower(key).compile(), key

    def run() -> object:
        program, key = compiled()
        return program(key).block_until_ready()

    return run


PEER = Peer(
    name="JAX",
    package="jax",
    install='pip install "fanin[jax]"',
    threads="all",
    load=load,
    fill=fill,
    fresh=fresh,
)
