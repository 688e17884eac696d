"""What a run of the benchmarks leaves: rows of timings, errors, and the circumstances, as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

SECTIONS = ("fills", "functions", "fresh")
"""Warm buffers filled in place; functions of torch.nn.init; new arrays."""


@dataclass(frozen=True)
class Contestant:
    """Medians of one contestant's calls. `way` says how it did it, where there was a choice."""

    seconds: float
    cpu_seconds: float
    rounds: int
    threads: int
    way: str = ""


@dataclass(frozen=True)
class Row:
    """A case with its contestants. `what`: a distribution, or a function of torch.nn.init."""

    section: str
    what: str
    dtype: str
    shape: tuple[int, ...]
    threads: int
    contestants: dict[str, Contestant]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    def rate(self, name: str) -> float:
        """Millions of elements a second."""
        return self.size / self.contestants[name].seconds / 1e6

    def cpu_nanoseconds(self, name: str) -> float:
        """CPU time an element, of all threads together."""
        return self.contestants[name].cpu_seconds / self.size * 1e9

    def ratio(self, name: str) -> float:
        """How many times as fast as this contestant fanin is."""
        return self.contestants[name].seconds / self.contestants["fanin"].seconds


@dataclass(frozen=True)
class Error:
    """Largest errors by library, in units in the last place."""

    distribution: str
    dtype: str
    units: dict[str, float]


@dataclass(frozen=True)
class Results:
    """A whole run."""

    command: str
    rounds: int
    machine: dict[str, Any]
    rows: list[Row]
    errors: list[Error] = field(default_factory=list)

    def section(self, name: str) -> list[Row]:
        """The rows of a section, in the order in which they were measured."""
        return [row for row in self.rows if row.section == name]

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`, with the rates and ratios of each row."""
        record = asdict(self)
        for row, entry in zip(self.rows, record["rows"], strict=True):
            for name, contestant in entry["contestants"].items():
                contestant["million_elements_per_second"] = row.rate(name)
                contestant["cpu_nanoseconds_per_element"] = row.cpu_nanoseconds(name)
                contestant["fanin_is_faster_by"] = row.ratio(name)
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Results:
        """The same results from what `to_json` made.

        Raises
        ------
        ValueError
            Something else was given.
        """
        try:
            rows = [_row(row) for row in record["rows"]]
            errors = [Error(**error) for error in record["errors"]]
            return cls(record["command"], record["rounds"], record["machine"], rows, errors)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"these are no results of `fanin bench --json` ({error})") from None


def _row(record: dict[str, Any]) -> Row:
    contestants = {
        name: Contestant(**{field: entry[field] for field in Contestant.__dataclass_fields__})
        for name, entry in record["contestants"].items()
    }
    return Row(**{**record, "shape": tuple(record["shape"]), "contestants": contestants})
