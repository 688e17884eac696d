"""Runs what was chosen: every case of every section, its contestants in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fanin.bench import axes, machine, peers
from fanin.bench.measuring import Run, Timing, fastest, in_turn
from fanin.bench.results import SECTIONS, Contestant, Error, Results, Row
from fanin.output import ITEMSIZE
from fanin.threads import available_cpus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanin.bench.peers.peer import Peer, Ways

TRIAL = 2**22  # elements on which the ways of a contestant are compared


@dataclass(frozen=True)
class Settings:
    """What to measure."""

    sections: tuple[str, ...] = SECTIONS
    sizes: tuple[int, ...] = axes.DEFAULT_SIZES
    dtypes: tuple[str, ...] = axes.DEFAULT_DTYPES
    distributions: tuple[str, ...] = tuple(axes.DISTRIBUTIONS)
    functions: tuple[str, ...] = tuple(axes.FUNCTIONS)
    threads: tuple[int, ...] = axes.default_threads()
    peers: tuple[str, ...] = peers.CHOICES
    rounds: int = 5
    errors: bool = True


class Suite:
    """One run of the benchmarks. Notes on what is left out are gathered in `notes`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.peers, self.notes = peers.load(settings.peers)
        self._jobs = list(self._all_jobs())

    def __len__(self) -> int:
        return len(self._jobs)

    def run(self, command: str, progress: Callable[[], object] = lambda: None) -> Results:
        """Measure everything; `progress` is called after each of `len(self)` cases.

        Raises
        ------
        ValueError
            A case needs more memory than is available. Nothing has been measured then.
        """
        self._check_memory()
        rows, errors = [], []
        for job in self._jobs:
            outcome = job()
            if isinstance(outcome, Row):
                rows.append(outcome)
            elif outcome is not None:
                errors.append(outcome)
            progress()
        packages = [peer.package for peer in self.peers if peer.package]
        return Results(command, self.settings.rounds, machine.facts(packages), rows, errors)

    def _all_jobs(self) -> Iterator[Callable[[], Row | Error | None]]:
        chosen = self.settings
        if "fills" in chosen.sections:
            for case in self._cases(chosen.distributions):
                yield partial(self._fill, case)
        if "functions" in chosen.sections:
            for name in chosen.functions:
                for threads in chosen.threads:
                    yield partial(self._function, name, threads)
        if "fresh" in chosen.sections:
            for case in self._cases(chosen.distributions[:1]):
                yield partial(self._fresh, case)
        if "fills" in chosen.sections and chosen.errors:
            for distribution in chosen.distributions:
                for dtype in chosen.dtypes:
                    yield partial(self._error, distribution, dtype)

    def _cases(self, distributions: tuple[str, ...]) -> Iterator[axes.Case]:
        for distribution in distributions:
            for dtype in self.settings.dtypes:
                for size in self.settings.sizes:
                    for threads in self.settings.threads:
                        yield axes.Case(distribution, dtype, size, threads)

    def _fill(self, case: axes.Case) -> Row:
        out = _touched((case.size,), case.dtype)
        runs, ways = {}, {}
        for peer in self._contestants(case):
            trial = peer.fill(case, out[:TRIAL])
            if trial:
                way = ways[peer.name] = fastest(trial)
                runs[peer.name] = (trial if case.size <= TRIAL else peer.fill(case, out))[way]
        return self._row("fills", case, runs, ways)

    def _fresh(self, case: axes.Case) -> Row:
        runs, ways = {}, {}
        for peer in self._contestants(case):
            choice: Ways = peer.fresh(case)
            if choice:
                ways[peer.name] = fastest(choice)
                runs[peer.name] = choice[ways[peer.name]]
        # The host of a virtual machine takes memory back that has been free for seconds, so each
        # sample finds as much that was in use just before.
        return self._row("fresh", case, runs, ways, lambda: _touched((case.size,), case.dtype))

    def _function(self, name: str, threads: int) -> Row:
        import fanin
        from fanin.bench.peers import torch

        pair, dtype = axes.FUNCTIONS[name], self.settings.dtypes[0]
        out = _touched(pair.shape, dtype)
        own = getattr(fanin, pair.fanin)
        options = {"out": out, "seed": 0, "name": "bench", "threads": threads}
        runs: dict[str, Run] = {"fanin": lambda: own(**pair.fanin_arguments, **options)}
        if any(peer.name == "torch" for peer in self.peers):
            run = torch.function(pair, out, dtype, threads)
            try:
                run()
            except RuntimeError as error:  # torch has no such kernel
                self.notes.append(f"torch's {name} is left out: {error}")
            else:
                runs["torch"] = run
        timings = in_turn(runs, self.settings.rounds)
        contestants = {who: _contestant(timing, threads) for who, timing in timings.items()}
        return Row("functions", name, dtype, pair.shape, threads, contestants)

    def _error(self, distribution: str, dtype: str) -> Error | None:
        from fanin.bench import errors

        try:
            units = errors.largest_errors(
                distribution, dtype, torch=any(peer.name == "torch" for peer in self.peers)
            )
        except ImportError as error:
            note = f"some errors are left out ({error}): pip install scipy mpmath"
            if note not in self.notes:
                self.notes.append(note)
            return None
        return Error(distribution, dtype, units) if units else None

    def _contestants(self, case: axes.Case) -> Iterator[Peer]:
        """The peers of a row: one with threads of its own choice stands in one row only."""
        only = {"one": min(self.settings.threads), "all": max(self.settings.threads)}
        for peer in self.peers:
            if case.threads == only.get(peer.threads, case.threads):
                yield peer

    def _row(
        self,
        section: str,
        case: axes.Case,
        runs: dict[str, Run],
        ways: Any,
        before: Run = lambda: None,
    ) -> Row:
        timings = in_turn(runs, self.settings.rounds, before)
        threads = {"one": 1, "all": available_cpus(), "any": case.threads}
        kinds = {peer.name: peer.threads for peer in self.peers}
        contestants = {
            name: _contestant(timing, threads[kinds[name]], ways[name])
            for name, timing in timings.items()
        }
        return Row(section, case.distribution, case.dtype, (case.size,), case.threads, contestants)

    def _check_memory(self) -> None:
        chosen = self.settings
        if not {"fills", "fresh"} & set(chosen.sections):
            return
        size, dtype = max(chosen.sizes), max(chosen.dtypes, key=ITEMSIZE.__getitem__)
        copies = 3 if any(peer.name in ("JAX", "torch") for peer in self.peers) else 1
        needed, available = copies * size * ITEMSIZE[dtype], machine.available_bytes()
        if available is not None and needed > available:
            raise ValueError(
                f"{size} elements of {dtype} need {needed / 1e9:.1f} GB of memory with what the"
                f" peers allocate, but only {available / 1e9:.1f} GB are available:"
                " choose smaller --sizes, or --peers NumPy,memory"
            )


def _touched(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """A flat or shaped array whose memory was written before."""
    import numpy as np

    from fanin.output import numpy_dtype

    return np.full(math.prod(shape), 0.5, numpy_dtype(dtype)).reshape(shape)


def _contestant(timing: Timing, threads: int, way: str = "") -> Contestant:
    return Contestant(timing.seconds, timing.cpu_seconds, timing.rounds, threads, way)
