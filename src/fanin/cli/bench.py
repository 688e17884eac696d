"""`fanin bench`: its options, and what it does with them.

Light to import, as every command's parser needs the options: what measures is imported by `run`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanin.bench import axes, peers
from fanin.bench.results import SECTIONS, Results


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `fanin bench` to its parser."""
    command.add_argument(
        "sections",
        metavar="SECTION",
        nargs="*",
        type=_one_of("SECTION", SECTIONS),
        help=f"what to measure: {', '.join(SECTIONS)}; default: all."
        " fills: warm buffers; functions: those of torch.nn.init; fresh: new arrays",
    )
    lists: list[tuple[str, Callable[[str], Any], str]] = [
        ("sizes", _size, f"elements, such as 2^20,2^26, or all ({_powers(axes.SIZES)})"),
        ("dtypes", _one_of("dtype", axes.DTYPES), ", ".join(axes.DTYPES)),
        (
            "distributions",
            _one_of("distribution", axes.DISTRIBUTIONS),
            ", ".join(axes.DISTRIBUTIONS),
        ),
        ("functions", _one_of("function", axes.FUNCTIONS), "names in torch.nn.init"),
        ("threads", _threads, "such as 1,2; default: 1 and all"),
        ("peers", _one_of("peer", peers.CHOICES), ", ".join(peers.CHOICES)),
    ]
    for name, item, summary in lists:
        command.add_argument(
            f"--{name}", metavar="LIST", type=_list_of(item, every=_EVERY.get(name)), help=summary
        )
    command.add_argument(
        "--rounds",
        metavar="N",
        type=_positive("rounds"),
        help="of which the medians are; default 5",
    )
    command.add_argument(
        "--no-errors", action="store_true", help="speed only, without the largest errors"
    )
    command.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw the results too: PNG, SVG or PDF"
    )
    command.add_argument(
        "--load", metavar="FILE", type=Path, help="measure nothing: show what --json once printed"
    )


def run(arguments: argparse.Namespace) -> None:
    """Measure or load, then print, then draw."""
    if arguments.plot is not None:
        from fanin.bench import plot

        plot.check(arguments.plot)  # before minutes of measuring
    results = _load(arguments.load) if arguments.load is not None else _measure(arguments)
    if arguments.json:
        print(json.dumps(results.to_json(), indent=1))
    else:
        from fanin.bench import report

        print(report.text(results))
    if arguments.plot is not None:
        plot.draw(results, arguments.plot)
        print(f"fanin: note: drawn into {arguments.plot}", file=sys.stderr)


def _measure(arguments: argparse.Namespace) -> Results:
    from tqdm import tqdm

    from fanin.bench.suite import Settings, Suite

    names = ("sections", "sizes", "dtypes", "distributions", "functions", "threads", "peers")
    chosen = {name: value for name in (*names, "rounds") if (value := getattr(arguments, name))}
    settings = Settings(**chosen, errors=not arguments.no_errors)
    suite = Suite(settings)
    with tqdm(total=len(suite), unit="case", leave=False, disable=not _terminal()) as bar:
        results = suite.run(_command(arguments, chosen), bar.update)
    for note in suite.notes:
        print(f"fanin: note: {note}", file=sys.stderr)
    return results


def _load(path: Path) -> Results:
    try:
        return Results.from_json(json.loads(path.read_text()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _command(arguments: argparse.Namespace, chosen: dict[str, Any]) -> str:
    """The command that measures the same again."""
    words = ["fanin", "bench"]
    for name, value in chosen.items():
        if name == "sections":
            words += value
        elif name == "rounds":
            words += ["--rounds", str(value)]
        else:
            words += [f"--{name}", _powers(value) if name == "sizes" else ",".join(map(str, value))]
    if arguments.no_errors:
        words.append("--no-errors")
    return " ".join(words)


def _powers(sizes: tuple[int, ...]) -> str:
    exponents = [size.bit_length() - 1 for size in sizes]
    pairs = zip(sizes, exponents, strict=True)
    return ",".join(f"2^{power}" if size == 2**power else str(size) for size, power in pairs)


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


_EVERY: dict[str, tuple[Any, ...]] = {
    "sizes": axes.SIZES,
    "dtypes": axes.DTYPES,
    "distributions": tuple(axes.DISTRIBUTIONS),
    "functions": tuple(axes.FUNCTIONS),
    "peers": peers.CHOICES,
}


def _list_of(
    item: Callable[[str], Any], every: tuple[Any, ...] | None
) -> Callable[[str], tuple[Any, ...]]:
    def parse(text: str) -> tuple[Any, ...]:
        if text == "all" and every:
            return every
        return tuple(dict.fromkeys(item(part.strip()) for part in text.split(",")))

    return parse


def _one_of(what: str, allowed: Any) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for name in allowed:
            if text.lower() == name.lower():
                return str(name)
        raise argparse.ArgumentTypeError(
            f"{what} {text!r} is unknown: choose from {', '.join(allowed)}"
        )

    return parse


def _size(text: str) -> int:
    base, power, exponent = text.replace("**", "^").partition("^")
    digits = base.isdecimal() and (exponent.isdecimal() if power else True)
    size = int(base) ** min(int(exponent), 99) if digits and power else int(base) if digits else 0
    if not 1 <= size <= 2**34:
        raise argparse.ArgumentTypeError(
            f"size {text!r} is not a number of elements from 1 to 2^34, such as 1000 or 2^20"
        )
    return size


def _positive(what: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= 4096:
            raise argparse.ArgumentTypeError(f"{what} must be from 1 to 4096, got {text!r}")
        return int(text)

    return parse


_threads = _positive("threads")
