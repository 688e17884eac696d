"""What stands beside the numbers of every benchmark: the CPU, the versions, the memory there is."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from fanin import __version__, _core
from fanin.threads import available_cpus


def facts(packages: Iterable[str]) -> dict[str, Any]:
    """CPU, cores, instruction set, and the versions of the packages that are installed."""
    return {
        "cpu": _cpu(),
        "cores": available_cpus(),
        "simd": _core.simd(),
        "versions": {"fanin": __version__, **_versions(packages)},
        "python": platform.python_version(),
    }


def sentence(machine: dict[str, Any]) -> str:
    """The facts in a line.

    Examples
    --------
    >>> sentence({"cpu": "Z80", "cores": 1, "simd": "baseline", "python": "3.11.7",
    ...           "versions": {"fanin": "0.1.0", "numpy": "2.4.6"}})
    'Z80 (1 core), fanin 0.1.0 (baseline), numpy 2.4.6, Python 3.11.7'
    """
    versions = dict(machine["versions"])
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    return ", ".join(
        [
            f"{machine['cpu']} ({cores})",
            f"fanin {versions.pop('fanin')} ({machine['simd']})",
            *(f"{name} {version}" for name, version in versions.items()),
            f"Python {machine['python']}",
        ]
    )


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
