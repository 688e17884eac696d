"""How many threads a call may use.

`threads=`, else the environment (`FANIN_NUM_THREADS`, `OMP_NUM_THREADS`), else the CPUs that this
process may really use: its affinity, and the CPU quota of its control group (a container with two
CPUs on a 128-CPU machine gets two). `os.cpu_count()` knows neither.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from fanin.arguments import integer

_MAX_THREADS = 4096


def thread_count(threads: int | None = None) -> int:
    """Number of threads for a call: `threads`, or the environment's, or the CPUs there are.

    Examples
    --------
    >>> from fanin.threads import thread_count
    >>> thread_count(3)
    3
    """
    if threads is not None:
        return integer("threads", threads, low=1, high=_MAX_THREADS)
    if own := os.environ.get("FANIN_NUM_THREADS", "").strip():
        if own.isdecimal() and 1 <= int(own) <= _MAX_THREADS:
            return int(own)
        raise ValueError(
            f"FANIN_NUM_THREADS must be an integer from 1 to {_MAX_THREADS}, got {own!r}"
        )
    # OpenMP allows a list, one number for each level of nesting. Other values are not ours to
    # judge.
    openmp = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if openmp.isdecimal() and int(openmp) > 0:
        return min(int(openmp), _MAX_THREADS)
    return available_cpus()


def available_cpus() -> int:
    """CPUs this process may use: its affinity, and at most its control group's quota."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, min([cpus, *_whole_quotas(int(time.monotonic()))]))


@lru_cache(maxsize=1)
def _whole_quotas(second: int) -> list[int]:
    """The control groups' quotas, rounded up, read once a second: a model is thousands of calls."""
    return [math.ceil(quota) for quota in _cgroup_quotas()]


def _cgroup_quotas(root: Path = Path("/")) -> Iterator[float]:
    """CPU quotas, in CPUs, of this process's control groups and of all groups above them."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":  # version 2
            for group in _group_and_parents(mount, path):
                quota, _, period = _read(group / "cpu.max").partition(" ")
                yield from _cpus(quota, period)
        elif "cpu" in controllers.split(","):  # version 1
            for group in _group_and_parents(mount / "cpu", path):
                quota = _read(group / "cpu.cfs_quota_us")
                yield from _cpus(quota, _read(group / "cpu.cfs_period_us"))


def _group_and_parents(mount: Path, path: str) -> Iterator[Path]:
    group = mount / path.lstrip("/")
    yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))


def _cpus(quota: str, period: str) -> Iterator[float]:
    """The quota in CPUs; nothing where there is none (`max` in version 2, -1 in version 1)."""
    if quota.strip().isdecimal() and period.strip().isdecimal() and int(period) > 0:
        yield int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
