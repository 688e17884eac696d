"""Checkpoints at any scale: `fanin init` beside a plain writer of as many constant bytes.

`python bench/scale.py [--sizes 1,4,16] [--disk FOLDER] [--rounds 3] [--threads N] [--write]`. The
model is Llama-3.1-8B in bfloat16, 16 GB, or the same with fewer layers and tokens. The plain writer
makes files of the same sizes with the same threads: blocks of constant bytes, each at its place,
and an fsync before a file gets its name. Each run is a process of its own and is timed as a whole;
they take turns, and so does who begins. The folder needs room for one checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import readme
from fanin import config, families
from fanin.bench import machine
from fanin.checkpoint.files import checkpoint_files
from fanin.plan import make_plan
from fanin.threads import thread_count

PRESET, DTYPE, WHOLE = "llama-3.1-8b", "bfloat16", 16.06  # GB

PLAIN = """
import itertools, json, os, sys, threading
sizes, threads, fsync = json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
block = bytes([60]) * (1 << 20)
def write(descriptor, offsets, size):
    for offset in offsets:
        left = memoryview(block)[: size - offset]
        while left:
            done = os.pwrite(descriptor, left, offset)
            left, offset = left[done:], offset + done
class Shared:
    def __init__(self, numbers):
        self.numbers, self.lock = iter(numbers), threading.Lock()
    def __iter__(self):
        return self
    def __next__(self):
        with self.lock:
            return next(self.numbers)
for number, size in enumerate(sizes):
    path = os.path.join(sys.argv[1], f"plain-{number}")
    descriptor = os.open(path + ".partial", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    offsets = Shared(range(0, size, len(block)))
    job = {"target": write, "args": (descriptor, offsets, size)}
    writers = [threading.Thread(**job) for _ in range(threads)]
    for writer in writers: writer.start()
    for writer in writers: writer.join()
    if fsync: os.fsync(descriptor)
    os.close(descriptor)
    os.rename(path + ".partial", path)
"""


@dataclass(frozen=True)
class Run:
    """What a process took."""

    seconds: float
    cpu_seconds: float
    peak: int  # bytes of memory; at least this script's, from which the system counts


def measure(size: float, arguments: argparse.Namespace) -> tuple[int, dict[str, list[Run]]]:
    """Bytes of a model of about `size` GB, and the runs of each contestant."""
    fields = json.loads(config.find(PRESET).read_text())
    part = min(1.0, size / WHOLE)
    fields["num_hidden_layers"] = max(1, round(fields["num_hidden_layers"] * part))
    fields["vocab_size"] = round(fields["vocab_size"] * part)
    plan = make_plan(families.build(fields), dtype=DTYPE)
    shards = [shard.num_bytes for shard in checkpoint_files(plan, "5GB").shards]
    runs: dict[str, list[Run]] = {"fanin": [], "plain": []}
    with tempfile.TemporaryDirectory(dir=arguments.disk) as folder:
        given = Path(folder) / "config.json"
        given.write_text(json.dumps(fields))
        output = Path(folder) / "out"
        threads, fsync = str(arguments.threads), arguments.fsync
        options = [
            *("--dtype", DTYPE),
            *("--threads", threads),
            "--fsync" if fsync else "--no-fsync",
        ]
        commands = {
            "fanin": ["-m", "fanin", "init", str(given), str(output), *options],
            "plain": ["-c", PLAIN, str(output), json.dumps(shards), threads, str(fsync)],
        }
        for number in range(arguments.rounds):
            for name in list(commands)[:: 1 if number % 2 == 0 else -1]:
                output.mkdir()
                os.sync()
                runs[name].append(_run([sys.executable, *commands[name]]))
                shutil.rmtree(output)
                print(f"{size:g} GB, {name}: {runs[name][-1]}", file=sys.stderr)
    return sum(shards), runs


def _run(command: list[str]) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def row(num_bytes: int, runs: dict[str, list[Run]]) -> str:
    """Return a line of the table: medians, and the median of the rounds' ratios."""
    gigabytes = num_bytes / 1e9
    rounds = zip(runs["fanin"], runs["plain"], strict=True)
    ratio = statistics.median(plain.seconds / fanin.seconds for fanin, plain in rounds)
    seconds = {name: statistics.median(run.seconds for run in each) for name, each in runs.items()}
    cpu = {name: statistics.median(run.cpu_seconds for run in each) for name, each in runs.items()}
    peak = max(run.peak for run in runs["fanin"]) / 1e6
    return (
        f"| {gigabytes:.2f} | {seconds['fanin']:.2f} | {seconds['plain']:.2f} | {ratio:.2f} |"
        f" {cpu['fanin'] / gigabytes:.2f} | {cpu['plain'] / gigabytes:.2f} | {peak:.0f} |"
    )


def main() -> None:
    """Measure each size and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1,4,16", help="GB, up to 16")
    parser.add_argument("--disk", type=Path, default=Path("/dev/shm"), help="folder to write in")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=thread_count())
    parser.add_argument("--fsync", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--write", action="store_true", help="put the table into docs/speed.md")
    arguments = parser.parse_args()
    lines: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    tell("| GB | fanin, s | plain, s | plain / fanin | CPU s/GB | plain | peak, MB |")
    tell("|---:|---:|---:|---:|---:|---:|---:|")
    for size in map(float, arguments.sizes.split(",")):
        tell(row(*measure(size, arguments)))
    words = " ".join(["python bench/scale.py", *sys.argv[1:]])
    tell(
        f"\n{PRESET} in {DTYPE}, {arguments.threads} threads, medians of {arguments.rounds} rounds,"
        f" in turn. {machine.sentence(machine.facts([]))}. To repeat: `{words}`."
    )
    if arguments.write:
        place = "RAM disk" if arguments.disk == Path("/dev/shm") else "disk"
        readme.write(readme.ROOT / "docs" / "speed.md", place, "\n".join(lines))


if __name__ == "__main__":
    main()
