"""The results as a picture: speed against size where several sizes were measured, else dots.

One panel for each distribution and dtype, logarithmic axes that all panels share; memory's own
speed is the dashed line. Full colour: the most threads; faint: fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanin.bench import machine, peers
from fanin.bench.report import number
from fanin.bench.results import SECTIONS, Results, Row

INSTALL = 'pip install "fanin[plot]"'
SUFFIXES = (".png", ".svg", ".pdf")
SPEED = "million elements a second"

# Okabe and Ito's palette, which the colour-blind can tell apart.
COLOURS = {
    "fanin": "#D55E00",
    "torch": "#0072B2",
    "NumPy": "#009E73",
    "JAX": "#CC79A7",
    "MKL": "#E69F00",
    "memory": "#444444",
}


def check(path: Path) -> None:
    """Say at once what would keep the picture from being drawn.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The path ends in nothing that can be drawn, or its folder is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"--plot draws {', '.join(SUFFIXES)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ValueError(f"--plot {path}: there is no folder {str(path.parent)!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(f"--plot needs matplotlib: {INSTALL}") from None


def draw(results: Results, path: Path) -> None:
    """Draw the warm fills; where there are none, the functions or the new arrays."""
    from matplotlib.figure import Figure

    rows = next(rows for section in SECTIONS if (rows := results.section(section)))
    panels = _panels(rows)
    columns = len({dtype for _, dtype in panels})
    lines = -(-len(panels) // columns)
    figure = Figure(
        figsize=(2.0 + 4.2 * max(columns, 2), 1.6 + _height(panels) * lines), layout="constrained"
    )
    grid = figure.subplots(
        lines, columns, squeeze=False, sharex=True, sharey="all" if _varies(rows) else False
    )
    for axes, ((what, dtype), members) in zip(grid.flat, panels.items(), strict=False):
        axes.set_title(f"{what} {dtype}".replace("_", " ").strip(), fontsize=11)
        axes.grid(True, color="#e4e4e4", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        _lines(axes, members) if _varies(rows) else _dots(axes, members)
    for axes in grid[-1]:
        axes.set_xlabel("elements" if _varies(rows) else SPEED)
    if _varies(rows):
        for axes in grid[:, 0]:
            axes.set_ylabel(SPEED)
    _add_legend(figure, rows)
    figure.supxlabel(machine.sentence(results.machine), fontsize=8, color="#666666")
    figure.savefig(path, dpi=130)


def _panels(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        what = "functions of torch.nn.init," if row.section == "functions" else row.what
        panels.setdefault((what, row.dtype), []).append(row)
    return panels


def _varies(rows: Sequence[Row]) -> bool:
    return rows[0].section != "functions" and len({row.size for row in rows}) > 1


def _height(panels: dict[tuple[str, str], list[Row]]) -> float:
    """Inches of a panel: each dot needs a line of its own."""
    rows = max(panels.values(), key=len)
    if _varies(rows):
        return 2.6
    together = rows[0].section == "functions"
    return 0.6 + 0.17 * sum(1 if together else len(row.contestants) for row in rows)


def _lines(axes: Any, rows: Sequence[Row]) -> None:
    for threads in sorted({row.threads for row in rows}):
        for name in peers.NAMES:
            points = [row for row in rows if row.threads == threads and name in row.contestants]
            if points:
                axes.plot(
                    [row.size for row in points],
                    [row.rate(name) for row in points],
                    color=COLOURS[name],
                    alpha=_strength(name, threads, rows),
                    linewidth=2.4 if name == "fanin" else 1.4,
                    linestyle="--" if name == "memory" else "-",
                    marker="" if name == "memory" else "o",
                    markersize=4,
                )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")


def _dots(axes: Any, rows: Sequence[Row]) -> None:
    """A line a contestant; functions have few contestants, and a line for all."""
    labels: list[str] = []
    for row in rows:
        together = row.section == "functions"
        if together:
            labels.append(f"{row.what}, {_threads(row.threads)}")
        for name, contestant in row.contestants.items():
            value, strength = row.rate(name), _strength(name, row.threads, rows)
            if name == "memory":
                axes.axvline(value, color=COLOURS[name], linestyle="--", alpha=strength)
                continue
            if not together:
                labels.append(f"{name}, {_threads(contestant.threads)}")
            place = len(labels) - 1
            left = together and value < max(map(row.rate, row.contestants))
            axes.plot(value, place, "o", color=COLOURS[name], alpha=strength, zorder=3)
            axes.annotate(
                number(value),
                (value, place),
                xytext=(-6 if left else 6, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=7.5,
                zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            )
    axes.set_yticks(range(len(labels)), labels, fontsize=7.5)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.margins(x=0.12)


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _strength(name: str, threads: int, rows: Sequence[Row]) -> float:
    """Opacity: full for the most threads that this contestant has in the panel."""
    return 1.0 if threads == max(row.threads for row in rows if name in row.contestants) else 0.45


def _add_legend(figure: Any, rows: Sequence[Row]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[name],
            linewidth=2.4 if name == "fanin" else 1.6,
            linestyle="--" if name == "memory" else "-",
            label="memory: a constant" if name == "memory" else name,
        )
        for name in peers.NAMES
        if any(name in row.contestants for row in rows)
    ]
    threads = sorted({row.threads for row in rows})
    title = _threads(threads[-1])
    if len(threads) > 1:
        title += f" (faint: {', '.join(map(str, threads[:-1]))})"
    figure.legend(
        handles=handles,
        title=title,
        loc="outside upper center",
        ncols=len(handles),
        frameon=False,
    )
