"""A whole model: `fanin init` beside transformers' from_config and save_pretrained.

`python bench/checkpoint.py [PRESET] [DTYPE]`. Each run is a process of its own and writes to a RAM
disk; the contestants take turns, after as much memory as the job needs was touched and freed once.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fanin
from fanin import families
from fanin.plan import make_plan

TRANSFORMERS = """
import sys, torch, transformers
config = transformers.AutoConfig.from_pretrained(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, sys.argv[3]))
model.save_pretrained(sys.argv[2])
"""

TOUCH = "import numpy; numpy.ones(int(__import__('sys').argv[1]), numpy.uint8)"


def seconds(command: list[str], output: Path) -> float:
    """Wall-clock time of a command that writes to a folder, which is removed."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elapsed = time.perf_counter() - started
    shutil.rmtree(output)
    return elapsed


def main() -> None:
    """Run both in turn and print their medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", nargs="?", default="gpt2-xl")
    parser.add_argument("dtype", nargs="?", default="float32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    arguments = parser.parse_args()

    plan = make_plan(families.load(arguments.preset), dtype=arguments.dtype)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        output = Path(folder) / "model"
        preset = Path(fanin.__file__).parent / "presets" / f"{arguments.preset}.json"
        config = Path(folder) / "config.json"
        shutil.copy(preset, config)
        python = sys.executable
        ours = [python, "-m", "fanin", "init", str(config), str(output), "--dtype", arguments.dtype]
        theirs = [python, "-c", TRANSFORMERS, folder, str(output), arguments.dtype]
        subprocess.run([python, "-c", TOUCH, str(int(2.2 * plan.num_bytes))], check=True)
        times: dict[str, list[float]] = {"fanin": [], "transformers": []}
        for _ in range(arguments.rounds):
            times["fanin"].append(seconds(ours, output))
            times["transformers"].append(seconds(theirs, output))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:<13} {medians[name]:6.2f} s  of {', '.join(f'{v:.2f}' for v in values)}")
    print(f"{medians['transformers'] / medians['fanin']:.1f}x, {plan.num_bytes:,} bytes")


if __name__ == "__main__":
    main()
