"""Instructions per element of a fill, counted by callgrind: a figure of speed without noise.

    python bench/instructions.py             count and print
    python bench/instructions.py --check     fail where a count is over its budget by more than 5 %
    python bench/instructions.py --write     make the counts the budget, bench/instructions.json

Counted is what a fill executes, on one thread, after one unmeasured fill, by the core alone; not
what the program does around it. The counts are those of AVX2, since valgrind knows no AVX-512;
the kernels are one text. A count depends on the compiler and its options, so the budget names its
compiler and binds only the same major version: with another one `--check` prints the counts, says
that nothing was compared, and exits with status 3.

Few instructions are not always little time (a division is one instruction), so `--time` prints
what the same fills take, in ns an element, on every instruction set of this machine.

Needs valgrind, cmake, ninja and a C++ compiler (Debian: apt-get install valgrind g++).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

BENCH = Path(__file__).parent
BUDGET = BENCH / "instructions.json"
TOLERANCE = 0.05  # of the budget
NOT_COMPARED = 3  # exit status


class Case(NamedTuple):
    """A fill of the columns [begin, end) of a matrix."""

    distribution: str
    dtype: str
    rows: int = 1
    columns: int = 2**18
    begin: int = 0
    end: int = 2**18

    @property
    def name(self) -> str:
        region = f" columns {self.begin}:{self.end} of {self.rows}x{self.columns}"
        whole = (self.begin, self.end) == (0, self.columns)
        return f"{self.distribution} {self.dtype}{'' if whole else region}"

    @property
    def elements(self) -> int:
        return self.rows * (self.end - self.begin)


DISTRIBUTIONS = ["uniform", "normal", "truncated_normal"]
DTYPES = ["float32", "bfloat16", "float16", "float8_e4m3fn", "float64"]
CASES = [
    *(Case(distribution, dtype) for distribution in DISTRIBUTIONS for dtype in DTYPES),
    Case("constant", "float32"),
    # An eighth of a matrix, rows long and short enough for a row a lane.
    Case("normal", "float32", 1024, 4096, 512, 1024),
    Case("normal", "bfloat16", 4096, 768, 96, 192),
    Case("uniform", "float32", 4096, 768, 96, 192),
]


def build(folder: Path) -> Path:
    """Build the program that makes one fill, and return its path."""
    for command in (
        ["cmake", "-GNinja", "-S", BENCH / "core", "-B", folder],
        ["cmake", "--build", folder],
    ):
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{run.stdout}{run.stderr}\n{' '.join(map(str, command))} failed")
    return folder / "instructions"


def arguments(program: Path, case: Case) -> list[str]:
    return [str(program), *map(str, case)]


def count(program: Path, case: Case, folder: Path) -> float:
    """Return the instructions per element of a fill."""
    out = folder / "callgrind.out"
    options = ["--tool=callgrind", "--toggle-collect=measured", f"--callgrind-out-file={out}"]
    subprocess.run(
        ["valgrind", *options, *arguments(program, case)],
        env={**os.environ, "FANIN_SIMD": "avx2"},
        capture_output=True,
        check=True,
    )
    (total,) = (line for line in out.read_text().splitlines() if line.startswith("totals:"))
    return int(total.split()[1]) / case.elements


def nanoseconds(program: Path, case: Case, simd: str) -> float:
    """Return the median time per element of some 2^26 elements."""
    run = subprocess.run(
        [*arguments(program, case), str(max(3, 2**26 // case.elements))],
        env={**os.environ, "FANIN_SIMD": simd},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout) / case.elements * 1e9


def measure() -> tuple[str, dict[str, float]]:
    """Return the compiler, and the instructions per element of every case."""
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is needed: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        compiler = subprocess.run([program], capture_output=True, text=True, check=True)
        counts = {case.name: round(count(program, case, Path(folder)), 3) for case in CASES}
    return compiler.stdout.strip(), counts


def times() -> None:
    """Print the ns per element of every case on every instruction set that runs here."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for case in CASES:
            print(f"{case.name:<50}", end="")
            for simd in ("baseline", "avx2", "avx512", "neon"):
                try:
                    print(f"  {simd} {nanoseconds(program, case, simd):.3f}", end="", flush=True)
                except subprocess.CalledProcessError:
                    continue  # not of this machine
            print()


def compare(counts: Mapping[str, float], budget: Mapping[str, float]) -> tuple[list[str], bool]:
    """Return what is to be said of counts beside their budget, and whether all keep it."""
    lines, kept = [], True
    for name in {**budget, **counts}:
        if name not in counts or name not in budget:
            where = "budget" if name not in budget else "counts"
            lines.append(f"FAILED {name}: not in the {where}; bench/instructions.py --write")
            kept = False
            continue
        figures = f"{name}: {counts[name]:.3f} instructions an element, budget {budget[name]:.3f}"
        change = counts[name] / budget[name] - 1
        if change > TOLERANCE:
            lines.append(f"FAILED {figures} ({change:+.1%})")
            kept = False
        elif change < -TOLERANCE:
            lines.append(f"below  {figures} ({change:+.1%}): tighten it with --write")
        else:
            lines.append(f"kept   {figures}")
    return lines, kept


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="compare with the budget")
    action.add_argument("--write", action="store_true", help="make the counts the budget")
    action.add_argument("--time", action="store_true", help="print ns an element, not counts")
    parser.add_argument("--budget", type=Path, default=BUDGET, help="another file than the own")
    options = parser.parse_args(argv)
    if options.time:
        times()
        return 0
    compiler, counts = measure()
    if options.write:
        made = {"compiler": compiler, "instruction set": "avx2", "instructions an element": counts}
        options.budget.write_text(json.dumps(made, indent=1) + "\n")
    if not options.check:
        print(json.dumps(counts, indent=1))
        return 0
    budget = json.loads(options.budget.read_text())
    if budget["compiler"] != compiler:
        print(json.dumps(counts, indent=1))
        print(f"not compared: the budget is that of {budget['compiler']}, this is {compiler}")
        return NOT_COMPARED
    lines, kept = compare(counts, budget["instructions an element"])
    print("\n".join(lines))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
