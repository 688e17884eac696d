"""Speed and error beside torch and NumPy, as the README's table: `python bench/table.py --write`.

Speed: a warm buffer, the contestants in turn, the median of several rounds. Error: the largest
distance from the exact value of the formula over a million normals, in units in the last place of
float32 (in torch's case the exact values are not known: its error is left out).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import axes
import fanin
from fanin import _core

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- speed -->", "<!-- end of speed -->"
COMMAND = "python bench/table.py --write"
PEERS = ["fanin", "torch", "NumPy"]


def rates(distribution: str, dtype: str, threads: int, size: int, rounds: int) -> dict[str, float]:
    """Millions of elements a second of each contestant."""
    out = torch.zeros(size, dtype=axes.DTYPES[dtype])
    runs: dict[str, Callable[[], Any]] = {
        "fanin": lambda: axes.fill_with_fanin(distribution, out, threads),
        "torch": lambda: axes.fill_with_torch(distribution, out, threads),
    }
    if numpy := axes.numpy_filler(distribution, dtype):
        runs["NumPy"] = lambda: numpy(out.numpy())
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_number in range(rounds + 1):  # the first one warms up
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if round_number > 0:
                times[name].append(time.perf_counter() - started)
    return {name: size / statistics.median(seconds) / 1e6 for name, seconds in times.items()}


def largest_error(distribution: str, dtype: str, count: int = 2**20) -> str:
    """Largest error of the samples; uniforms have none but the rounding.

    float32 elements are compared with the formula in float64 from the same draws.
    """
    if dtype != "float32" or distribution == "uniform":
        return "exact, rounded once" if distribution == "uniform" else ""
    position = fanin.position(0, "bench")
    generator = fanin.Xorshift64Star(0x9E3779B97F4A7C15)
    generator.jump(position)
    draws = np.array([generator.next_u64() for _ in range(count)], np.uint64)
    values = axes.DISTRIBUTIONS[distribution].fill(
        np.empty(2 * count if distribution == "normal" else count, np.float32),
        seed=0,
        name="bench",
    )
    if distribution == "normal":
        from scipy.special import cosdg, sindg

        radius = np.sqrt(-2 * np.log(_radius(draws)))
        degrees = ((draws >> np.uint64(9)) & np.uint64(0xFFFFFF)).astype(np.float64) + 0.5
        degrees *= 360 * 2.0**-24
        exact = np.stack([radius * cosdg(degrees), radius * sindg(degrees)], 1).ravel()
    else:
        from scipy.special import ndtr, ndtri

        part = ((draws >> np.uint64(32)).astype(np.float64) + 0.5) * 2.0**-32
        exact = ndtri(ndtr(-2.0) + part * (ndtr(2.0) - ndtr(-2.0)))
    errors = np.abs(values - exact)
    unit = np.maximum(np.spacing(np.abs(exact).astype(np.float32)), 2.0**-24)
    return f"{(errors / unit).max():.1f} ULP"


def _radius(draws: np.ndarray) -> np.ndarray:
    bits = (draws >> np.uint64(33)).astype(np.uint32).astype(np.float32)
    return (bits + np.float32(0.5)).astype(np.float64) * 2.0**-31


def measure(size: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each distribution, dtype and number of threads."""
    rows = []
    for distribution in axes.DISTRIBUTIONS:
        for dtype in axes.DTYPES:
            for threads in axes.THREADS:
                row = {"distribution": distribution, "dtype": dtype, "threads": threads}
                row |= rates(distribution, dtype, threads, size, rounds)
                row["error"] = largest_error(distribution, dtype)
                rows.append(row)
                print(row, file=sys.stderr)
    return rows


def text(rows: list[dict[str, Any]], size: int, rounds: int) -> str:
    """Return the table as Markdown, with what is needed to repeat it."""
    lines = ["| | threads | fanin | torch | NumPy | fanin / torch | largest error |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for row in rows:
        numpy = f"{row['NumPy']:.0f}" if "NumPy" in row and row["threads"] == 1 else ""
        lines.append(
            f"| {row['distribution']} {row['dtype']} | {row['threads']} | {row['fanin']:.0f}"
            f" | {row['torch']:.0f} | {numpy} | {row['fanin'] / row['torch']:.1f}x"
            f" | {row['error']} |"
        )
    cpu = _cpu()
    versions = f"fanin {fanin.__version__} ({_core.simd()}), torch {torch.__version__}, NumPy"
    lines += [
        "",
        f"Millions of elements a second into a warm buffer of {size:,} elements; median of {rounds}"
        f" rounds, in turn. {cpu}, {versions} {np.__version__}, Python {platform.python_version()}."
        f" To repeat: `{COMMAND}`.",
    ]
    return "\n".join(lines)


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    """Measure, print, and with --write put the table into the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2**26)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = measure(arguments.size, arguments.rounds)
    table = text(rows, arguments.size, arguments.rounds)
    print(json.dumps(rows, indent=1) if arguments.json else table)
    if arguments.write:
        before, _, rest = README.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        README.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
