"""The results as Markdown tables: for a terminal, and for the README.

Ratios say how many times as fast as the peer fanin is; below 1 the peer is faster, as memory is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from fanin.bench import axes, machine, peers
from fanin.bench.results import SECTIONS, Results, Row

TITLES = {
    "fills": "A warm buffer{of}, filled in place:",
    "functions": "Functions of torch.nn.init, and fanin's of the same meaning, {dtype}{of}:",
    "fresh": "A new array{of}, in memory that was in use just before:",
}


def text(results: Results, sections: Sequence[str] = SECTIONS) -> str:
    """The table of each section that was measured, and what is needed to repeat it."""
    parts = []
    for section in sections:
        rows = results.section(section)
        if rows:
            sizes = {_elements(row) for row in rows}
            of = f" of {sizes.pop()} elements" if len(sizes) == 1 else ""
            parts += [
                TITLES[section].format(of=of, dtype=rows[0].dtype),
                "",
                _table(results, rows),
                "",
            ]
    return "\n".join([*parts, _explanation(results)])


def _table(results: Results, rows: Sequence[Row]) -> str:
    columns: dict[str, Callable[[Row], str]] = {"": _name, "threads": lambda row: str(row.threads)}
    if len({_elements(row) for row in rows}) > 1:
        columns["elements"] = _elements
    columns["fanin"] = lambda row: number(row.rate("fanin"))
    columns["CPU ns"] = lambda row: f"{row.cpu_nanoseconds('fanin'):.2f}"
    for name in peers.CHOICES:
        if any(name in row.contestants for row in rows):
            columns[name] = partial(_beside, name)
    if rows[0].section == "fills":
        for name in peers.NAMES:
            if any(name in error.units for error in results.errors):
                columns[f"error: {name}"] = partial(_error, results, name)
    return _aligned([list(columns), *([cell(row) for cell in columns.values()] for row in rows)])


def _name(row: Row) -> str:
    if row.section != "functions":
        return f"{row.what.replace('_', ' ')} {row.dtype}"
    return f"`{row.what}`, `{axes.FUNCTIONS[row.what].fanin}`"


def _elements(row: Row) -> str:
    if len(row.shape) > 1:
        return " x ".join(map(str, row.shape))
    exponent = row.size.bit_length() - 1
    return f"2^{exponent}" if row.size == 2**exponent else f"{row.size:,}"


def _beside(name: str, row: Row) -> str:
    """The peer's speed, and the ratio."""
    if name not in row.contestants:
        return ""
    return f"{number(row.rate(name))} ({number(row.ratio(name))}x)"


def _error(results: Results, name: str, row: Row) -> str:
    for error in results.errors:
        if (error.distribution, error.dtype) == (row.what, row.dtype) and name in error.units:
            return f"{error.units[name]:.1f}"
    return ""


def number(value: float) -> str:
    """Three digits and more.

    Examples
    --------
    >>> [number(value) for value in (1234.5, 12.345, 0.5678)]
    ['1234', '12.3', '0.57']
    """
    return f"{value:.{0 if value >= 100 else 1 if value >= 1 else 2}f}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: Iterable[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(lines[0]), line(rule), *map(line, lines[1:])])


def _explanation(results: Results) -> str:
    """Paragraphs: what the columns are, who took part how, and where."""
    what = [
        "Speed in millions of elements a second; in brackets, how many times as fast fanin is.",
        f"Medians of {results.rounds} rounds, in turn (fewer for who is slow). CPU ns: fanin's CPU"
        " time an element, of all threads together.",
        *_truncation(results),
    ]
    if results.errors:
        what.append(
            "Error in units in the last place, the largest of many samples against the formula's"
            " exact value; empty where there is none but the last rounding, or where the exact"
            " value is not known."
        )
    who = [*_threads(results), *_ways(results)]
    where = f"{machine.sentence(results.machine)}. To repeat: `{results.command}`."
    return "\n\n".join(filter(None, [" ".join(what), " ".join(who), where]))


def _truncation(results: Results) -> list[str]:
    if any("truncated" in row.what for row in results.rows):
        return ["Truncated normals have bounds at 2 standard deviations, wide ones at 100."]
    return []


def _threads(results: Results) -> list[str]:
    """Who has threads of its own choice."""
    sentences = []
    seen = {name for row in results.rows for name in row.contestants}
    alone = [name for name in ("NumPy", "MKL") if name in seen]
    if alone:
        sentences.append(f"{' and '.join(alone)}: one thread.")
    if "JAX" in seen:
        cores = results.machine["cores"]
        sentences.append(f"JAX: {'one core' if cores == 1 else f'all {cores} cores'}, new arrays.")
    return sentences


def _ways(results: Results) -> list[str]:
    """How the peers that had a choice were the fastest in this run."""
    rows = results.section("fills")
    if len({row.size for row in rows}) > 1:
        return ["The way of each peer that was the fastest, case by case, is in --json."]
    taken: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, contestant in row.contestants.items():
            if contestant.way and name != "memory":
                way = contestant.way
                if name == "MKL":
                    way = f"{row.what} {row.dtype} by {way}"
                taken.setdefault(name, {})[way] = None
    return [f"{name}, the fastest of its ways: {'; '.join(ways)}." for name, ways in taken.items()]
