"""What a library that takes part has to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from fanin.bench.axes import Case
from fanin.bench.measuring import Run

Ways = dict[str, Run]
"""Ways to do the same, by a name that tells them apart; the fastest of a trial takes part."""


@dataclass(frozen=True)
class Peer:
    """A library beside fanin.

    `load` raises ImportError or OSError where it is missing, and `install` says what to do then.
    `threads`: it uses as many as it is told, one, or all cores whatever it is told. `fill` gives
    the ways to fill an array that is there, `fresh` those to make a new one; none where it has no
    such distribution or dtype.
    """

    name: str
    package: str | None
    install: str
    threads: Literal["any", "one", "all"]
    load: Callable[[], object]
    fill: Callable[[Case, NDArray[Any]], Ways]
    fresh: Callable[[Case], Ways]
