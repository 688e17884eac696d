"""Speed and error beside torch and NumPy, as the README's table: `python bench/table.py --write`.

Speed: a warm buffer, the contestants in turn, the median of several rounds. Error: the largest
distance from the exact value of the formula (see `error.py`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import axes
import error
import report

PATIENCE = 10.0  # seconds after which a contestant's rounds are enough
ONE, TWO = axes.THREADS


def rates(distribution: str, dtype: str, threads: int, size: int, rounds: int) -> dict[str, float]:
    """Millions of elements a second of each contestant."""
    out = torch.zeros(size, dtype=axes.DTYPES[dtype])
    runs: dict[str, Callable[[], Any]] = {
        "fanin": lambda: axes.fill_with_fanin(distribution, out, threads),
        "torch": lambda: axes.fill_with_torch(distribution, out, threads),
    }
    numpy = axes.numpy_filler(distribution, dtype)
    if threads == 1 and numpy:
        runs["NumPy"] = lambda: numpy(out.numpy())
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_number in range(rounds + 1):  # the first one warms up
        for name, run in runs.items():
            if sum(times[name]) > PATIENCE:
                continue
            started = time.perf_counter()
            run()
            if round_number > 0:
                times[name].append(time.perf_counter() - started)
    return {name: size / statistics.median(seconds) / 1e6 for name, seconds in times.items()}


def measure(size: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each distribution and dtype."""
    rows = []
    for distribution in axes.DISTRIBUTIONS:
        for dtype in axes.DTYPES:
            row: dict[str, Any] = {"distribution": distribution, "dtype": dtype}
            for threads in axes.THREADS:
                row[f"threads={threads}"] = rates(distribution, dtype, threads, size, rounds)
            row["error"] = error.largest_errors(distribution, dtype)
            rows.append(row)
            print(row, file=sys.stderr)
    return rows


def text(rows: list[dict[str, Any]], size: int, rounds: int) -> str:
    """Return the table as Markdown, with what is needed to repeat it."""
    lines = [
        "| | fanin | torch | NumPy | fanin / torch | error: fanin | torch |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        one, two = row[f"threads={ONE}"], row[f"threads={TWO}"]
        cells = [
            f"{row['distribution']} {row['dtype']}",
            f"{one['fanin']:.0f} / {two['fanin']:.0f}",
            f"{one['torch']:.0f} / {two['torch']:.0f}",
            f"{one['NumPy']:.0f}" if "NumPy" in one else "",
            f"{one['fanin'] / one['torch']:.1f} / {two['fanin'] / two['torch']:.1f}",
            *(f"{row['error'][name]:.1f}" if name in row["error"] else "" for name in axes.FILLS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    command = f"python bench/table.py --size {size} --rounds {rounds} --write"
    return "\n".join(
        [
            *lines,
            "",
            f"Speed in millions of elements a second, with {ONE} / {TWO} threads (NumPy: one), into"
            f" a warm buffer of {size:,}: medians of {rounds} rounds, in turn (fewer for who"
            " is slow). Error in units in the last place, the largest of many samples against the"
            " formula's exact value; empty where there is none but the last rounding, or where the"
            " exact value is not known."
            f" {report.machine('torch', 'numpy')}. To repeat: `{command}`.",
        ]
    )


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
        report.write("speed", table)


if __name__ == "__main__":
    main()
