"""How time is taken: contestants in turn, warmed up, medians; quick calls many at a time.

The contestants of a case take turns round by round, so that a slow spell of the machine meets all
of them. The first run of each is not counted, unless it alone took longer than the patience: then
it is the only one. What a run returns is freed after the clock has stopped.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Run = Callable[[], object]

PATIENCE = 2.0  # seconds after which a contestant's rounds are enough
SHORTEST = 1e-2  # seconds: quicker calls are repeated until a sample takes about that long


@dataclass(frozen=True)
class Timing:
    """Medians of a contestant's rounds, for one call."""

    seconds: float
    cpu_seconds: float  # of all threads of the process
    rounds: int


@dataclass
class _Samples:
    run: Run
    calls: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def take(self) -> None:
        wall, cpu = _clock(self.run, self.calls)
        self.wall.append(wall)
        self.cpu.append(cpu)

    def patient(self) -> bool:
        return sum(self.wall) * self.calls < PATIENCE

    def timing(self) -> Timing:
        return Timing(statistics.median(self.wall), statistics.median(self.cpu), len(self.wall))


def in_turn(runs: Mapping[str, Run], rounds: int, before: Run = lambda: None) -> dict[str, Timing]:
    """Time each run in `rounds` rounds, fewer for one that uses up the patience.

    `before` is called before each sample, and not timed.

    Examples
    --------
    >>> timings = in_turn({"sum": lambda: sum(range(1000)), "len": lambda: len("w")}, rounds=3)
    >>> timings["sum"].rounds, timings["sum"].seconds > timings["len"].seconds
    (3, True)
    """
    contestants = {name: _warm_up(run, SHORTEST) for name, run in runs.items()}
    for _ in range(rounds):
        for samples in contestants.values():
            if samples.patient():
                before()
                samples.take()
    return {name: samples.timing() for name, samples in contestants.items()}


def fastest(ways: Mapping[str, Run]) -> str:
    """The name of the run with the least time of three."""
    if len(ways) == 1:
        return next(iter(ways))
    contestants = {name: _warm_up(run, SHORTEST / 10) for name, run in ways.items()}
    for _ in range(3):
        for samples in contestants.values():
            samples.take()
    return min(contestants, key=lambda name: min(contestants[name].wall))


def _warm_up(run: Run, shortest: float) -> _Samples:
    wall, cpu = _clock(run, 1)
    if wall > PATIENCE:
        return _Samples(run, 1, [wall], [cpu])
    if wall < shortest:
        wall, _ = _clock(run, 1)  # again: the first call loads code and tables
    return _Samples(run, max(1, round(shortest / max(wall, 1e-7))))


def _clock(run: Run, calls: int) -> tuple[float, float]:
    """Seconds of wall clock and of CPU, a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        kept = run()
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    del kept
    return seconds[0] / calls, seconds[1] / calls
