"""Orthogonal matrices beside torch, JAX and SciPy; the core's product beside NumPy's; errors.

`python bench/orthogonal.py [SHAPE ...]`, shapes such as 4096x4096 or 64x256x256 (so many matrices).
The contestants of a shape take turns, each number of threads in a process of its own, because
NumPy's BLAS learns it when it is loaded; XLA uses all. SciPy factors in float64 and is asked for
small square matrices only. A rate counts the operations of the blocked reflectors, 2 S^2 L - 2/3
S^3, whoever does more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from scipy import stats

import fanin
from fanin import _core
from fanin.bench import machine
from fanin.bench.measuring import in_turn
from fanin.threads import available_cpus

SHAPES = ["64x256x256", "1024x1024", "4096x4096", "11008x4096"]
SCIPY_UP_TO = 512
PRODUCT = 2048  # the side of the matrices that are multiplied


def contestants(shape: tuple[int, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """Each way to fill a float32 array of (matrices, rows, columns)."""
    batch, rows, columns = shape
    ours, theirs = np.zeros(shape, np.float32), torch.zeros(shape)
    torch.set_num_threads(threads)
    init = jax.jit(
        lambda key: jax.nn.initializers.orthogonal()(key, shape[-2:], np.float32),
    )
    keys = jax.random.split(jax.random.key(0), batch)
    runs: dict[str, Callable[[], Any]] = {
        "fanin": lambda: fanin.orthogonal(layout="boi", seed=0, out=ours, threads=threads),
        "torch": lambda: [torch.nn.init.orthogonal_(matrix) for matrix in theirs],
        "JAX": lambda: [init(key).block_until_ready() for key in keys],
    }
    if rows == columns <= SCIPY_UP_TO:
        law = stats.ortho_group(rows, seed=0)
        runs["SciPy"] = lambda: law.rvs(batch)
    return runs


def products(threads: int) -> dict[str, Callable[[], Any]]:
    """The core's product and NumPy's, of the same float32 matrices."""
    a, b = np.random.default_rng(0).standard_normal((2, PRODUCT, PRODUCT), np.float32)
    c = np.zeros_like(a)
    return {
        "fanin": lambda: _core.multiply(a, b, c, threads),
        "NumPy": lambda: np.matmul(a, b, out=c),
    }


def error(matrix: np.ndarray) -> float:
    """The largest element of Q Q^T - I along the short side, summed in float64."""
    q = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    return max(
        float(np.abs(rows @ q.T.astype(np.float64) - np.eye(len(rows), len(q), first)).max())
        for first in range(0, len(q), 512)
        for rows in [q[first : first + 512].astype(np.float64)]
    )


def errors(shape: tuple[int, ...]) -> dict[str, float]:
    """Those of one matrix of the shape."""
    rows, columns = shape[-2:]
    theirs = torch.nn.init.orthogonal_(torch.empty(rows, columns)).numpy()
    return {"fanin": error(fanin.orthogonal((rows, columns), seed=0)), "torch": error(theirs)}


def operations(shape: tuple[int, ...]) -> float:
    """Of the blocked reflectors."""
    batch, *sides = shape
    short, long = sorted(sides)
    return batch * (2 * short**2 * long - 2 / 3 * short**3)


def measure(threads: int, shapes: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Rates in 10^9 operations a second, for each shape and for the product."""
    timings = in_turn(products(threads), rounds)
    rates = {
        "product": {name: 2e-9 * PRODUCT**3 / timing.seconds for name, timing in timings.items()}
    }
    for text in shapes:
        shape = sizes(text)
        timings = in_turn(contestants(shape, threads), rounds)
        rates[text] = {
            name: operations(shape) / timing.seconds / 1e9 for name, timing in timings.items()
        }
    return rates


def sizes(text: str) -> tuple[int, ...]:
    """(matrices, rows, columns) of a shape such as 64x256x256 or 4096x4096."""
    numbers = tuple(map(int, text.split("x")))
    return numbers if len(numbers) == 3 else (1, *numbers)


def in_a_process(threads: int, shapes: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """What `measure` finds where BLAS has so many threads."""
    variables = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    command = [sys.executable, __file__, "--one", str(threads), "--rounds", str(rounds), *shapes]
    run = subprocess.run(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True
    )
    return json.loads(run.stdout)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.shapes, arguments.rounds)))
        return
    print(machine.sentence(machine.facts(["torch", "numpy", "jax", "scipy"])))
    for threads in sorted({1, available_cpus()}):
        rates = in_a_process(threads, arguments.shapes, arguments.rounds)
        for case, row in rates.items():
            ours = row.pop("fanin")
            cells = [f"{name} {rate:.0f} ({ours / rate:.2f})" for name, rate in row.items()]
            print(f"{threads} threads, {case}: {ours:.0f} GFlop/s; {', '.join(cells)}", flush=True)
    for text in arguments.shapes:
        if math.prod(sizes(text)[-2:]) <= 4096**2:
            found = ", ".join(f"{name} {value:.1e}" for name, value in errors(sizes(text)).items())
            print(f"|Q Q^T - I|max, {text}: {found}", flush=True)


if __name__ == "__main__":
    main()
