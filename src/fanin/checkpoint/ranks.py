"""Which of several processes this one is, and which files it writes.

The processes never speak with each other. Each knows its number and how many there are, by options
or by what the launcher put into the environment, and so its share of the files, which is a function
of these two and the files' sizes.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fanin.arguments import integer

__all__ = ["Rank", "check_rank", "find_rank", "share"]

Item = TypeVar("Item")

# Launchers, innermost first: mpirun starts its daemons by srun, torchrun may run under either, and
# what each sets is inherited.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH and its relatives
)
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")


@dataclass(frozen=True)
class Rank:
    """A process by its number, from 0 to `world_size - 1`."""

    rank: int = 0
    world_size: int = 1
    source: str = ""  # the variables it was read from; empty for options and for a single process


def find_rank(
    rank: int | None = None,
    world_size: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Rank:
    """Return the rank that the options give, else the launcher's, else that of a single process.

    Raises
    ------
    ValueError
        One of the two numbers is given without the other, is no integer, or they do not fit.

    Examples
    --------
    >>> find_rank(environment={"RANK": "2", "WORLD_SIZE": "4"})
    Rank(rank=2, world_size=4, source='RANK, WORLD_SIZE')
    >>> find_rank(0, 2, environment={"RANK": "2", "WORLD_SIZE": "4"})
    Rank(rank=0, world_size=2, source='')
    """
    if rank is not None or world_size is not None:
        if rank is None or world_size is None:
            given, absent = ("--rank", "--world-size")[:: 1 if world_size is None else -1]
            raise ValueError(f"{given} needs {absent} with it")
        check_rank(rank, world_size, "--rank", "--world-size")
        return Rank(rank, world_size)
    for names in _VARIABLES:
        texts = [environment.get(name, "").strip() for name in names]
        if any(texts):
            return _read(names, texts)
    texts = [environment.get(name, "").strip() for name in _SLURM]
    # A batch script has these two as well, of the job. The tasks that srun starts are a step of it.
    # And a shell in an allocation has only the number of tasks.
    in_step = "SLURM_JOB_ID" not in environment or "SLURM_STEP_ID" in environment
    return _read(_SLURM, texts) if texts[0] and in_step else Rank()


def check_rank(
    rank: int, world_size: int, name: str = "rank", size_name: str = "world_size"
) -> None:
    """Raise ValueError, or TypeError, unless there is a process of that number."""
    integer(size_name, world_size, low=1)
    integer(name, rank, low=0)
    if rank >= world_size:
        raise ValueError(
            f"{name} must be from 0 to {world_size - 1}, as {size_name} is {world_size}; got {rank}"
        )


def share(items: Sequence[Item], sizes: Sequence[int], rank: int, world_size: int) -> list[Item]:
    """Return what one process gets of the items, in their order.

    The largest goes first, each to the process that has the least so far.

    Examples
    --------
    >>> [share("abcd", [5, 5, 1, 4], rank, 2) for rank in range(2)]
    [['a', 'd'], ['b', 'c']]
    """
    loads = [(0, process) for process in range(min(world_size, len(items)))]
    own = []
    for number in sorted(range(len(items)), key=lambda number: -sizes[number]):
        load, process = heapq.heappop(loads)
        heapq.heappush(loads, (load + sizes[number], process))
        if process == rank:
            own.append(number)
    return [items[number] for number in sorted(own)]


def _read(names: tuple[str, str], texts: list[str]) -> Rank:
    for name, text, other in zip(names, texts, reversed(names), strict=True):
        if not text:
            raise ValueError(
                f"{other} is set and {name} is not: set both or neither, or give --rank and"
                " --world-size, which count more"
            )
    rank, world_size = map(_integer, names, texts)
    check_rank(rank, world_size, *names)
    return Rank(rank, world_size, ", ".join(names))


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be an integer, got {text!r}") from None
