"""A whole model: `fanin init` beside transformers' from_config and save_pretrained.

`python bench/checkpoint.py [PRESET] [DTYPE]`. Each run is a process of its own and writes to a RAM
disk; the contestants take turns, after as much memory as the job needs was touched and freed once.
fanin's time is that of the whole command; transformers' begins after its imports.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import readme
from fanin import config, families
from fanin.bench import machine
from fanin.plan import make_plan

TRANSFORMERS = """
import sys, time, torch, transformers
transformers.utils.logging.disable_progress_bar()
started = time.perf_counter()
config = transformers.AutoConfig.from_pretrained(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, sys.argv[3]))
model.save_pretrained(sys.argv[2])
print(time.perf_counter() - started)
"""

TOUCH = "import numpy, sys; numpy.ones(int(sys.argv[1]), numpy.uint8)"


def measure(preset: str, dtype: str, rounds: int, disk: Path) -> tuple[dict[str, list[float]], int]:
    """Seconds of each contestant's rounds, and the bytes of the model."""
    num_bytes = make_plan(families.load(preset), dtype=dtype).num_bytes
    times: dict[str, list[float]] = {"fanin": [], "transformers": []}
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        shutil.copy(config.find(preset), Path(folder) / "config.json")
        output = Path(folder) / "model"
        contestants = {
            "fanin": lambda: _command(
                "-m", "fanin", "init", folder, str(output), "--dtype", dtype, "--json"
            ),
            "transformers": lambda: float(_run("-c", TRANSFORMERS, folder, str(output), dtype)),
        }
        _run("-c", TOUCH, str(int(2.2 * num_bytes)))  # the file, and a model in memory
        for _ in range(rounds):
            for name, contestant in contestants.items():
                times[name].append(_clean(contestant, output))
                print(f"{name} {times[name][-1]:.2f} s", file=sys.stderr)
    return times, num_bytes


def _command(*arguments: str) -> float:
    started = time.perf_counter()
    _run(*arguments)
    return time.perf_counter() - started


def _run(*arguments: str) -> str:
    result = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{sys.executable} {' '.join(arguments)} failed")
    return result.stdout


def _clean(contestant: Callable[[], float], output: Path) -> float:
    try:
        return contestant()
    finally:
        shutil.rmtree(output, ignore_errors=True)


def text(times: dict[str, list[float]], num_bytes: int, command: str) -> str:
    """Return the table as Markdown, with what is needed to repeat it."""
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    lines = ["| | seconds | GB/s |", "|---|---:|---:|"]
    for name, median in medians.items():
        lines.append(f"| {name} | {median:.2f} | {num_bytes / median / 1e9:.2f} |")
    rounds = len(times["fanin"])
    where = machine.sentence(machine.facts(["transformers", "torch"]))
    return "\n".join(
        [
            *lines,
            "",
            f"{medians['transformers'] / medians['fanin']:.1f} times as fast: {num_bytes:,} bytes,"
            f" median of {rounds} rounds, in turn."
            f" {where}. To repeat: `{command}`.",
        ]
    )


def main() -> None:
    """Run both in turn and print the times; with --write put them into the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", nargs="?", default="gpt2-xl")
    parser.add_argument("dtype", nargs="?", default="float32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disk", type=Path, default=Path("/dev/shm"), help="folder to write in")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    times, num_bytes = measure(arguments.preset, arguments.dtype, arguments.rounds, arguments.disk)
    command = f"python bench/checkpoint.py {arguments.preset} {arguments.dtype}"
    command += f" --rounds {arguments.rounds} --write"
    table = text(times, num_bytes, command)
    print(table)
    if arguments.write:
        readme.write(readme.README, "model", table)


if __name__ == "__main__":
    main()
