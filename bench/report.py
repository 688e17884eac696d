"""What goes beside the numbers of every benchmark, and their place in the README.

A table stands between two comments, `<!-- NAME -->` and `<!-- end of NAME -->`; a benchmark that is
run with `--write` replaces it, so that no number is typed.
"""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

import fanin
from fanin import _core
from fanin.threads import available_cpus

README = Path(__file__).parents[1] / "README.md"


def machine(*packages: str) -> str:
    """CPU, threads there are, instruction set, versions."""
    versions = [f"{name} {metadata.version(name)}" for name in packages]
    return ", ".join(
        [
            f"{_cpu()} ({_cores()})",
            f"fanin {fanin.__version__} ({_core.simd()})",
            *versions,
            f"Python {platform.python_version()}",
        ]
    )


def write(section: str, text: str) -> None:
    """Put the text between the README's comments of that name."""
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    before, _, rest = README.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{README.name} has no {begin} ... {end}")
    README.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _cores() -> str:
    cpus = available_cpus()
    return "1 core" if cpus == 1 else f"{cpus} cores"
