"""`fanin verify`: sample a checkpoint again and compare every bit."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from fanin.cli.printable import one_line
from fanin.cli.progress import ProgressBar

if TYPE_CHECKING:
    from fanin.checkpoint.verify import Report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what to compare, and how."""
    parser.add_argument(
        "path", metavar="DIR", help="folder of a checkpoint, or one of its safetensors files"
    )
    parser.add_argument(
        "--tensor",
        metavar="NAME[SLICES]",
        dest="tensors",
        action="append",
        default=[],
        help="compare this tensor only, or this part of it: 'lm_head.weight[0:10, :]'; may be"
        " repeated",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="default: FANIN_NUM_THREADS, OMP_NUM_THREADS or the CPUs that this process may use",
    )


def run(arguments: argparse.Namespace) -> None:
    """Compare, print what was found, and fail if anything was."""
    from fanin.checkpoint.verify import verify

    with ProgressBar() as bar:
        report = verify(
            arguments.path,
            tensors=arguments.tensors,
            threads=arguments.threads,
            progress=bar.show,
        )
    print(json.dumps(report.to_json(), indent=2) if arguments.json else _text(report))
    if not report.ok:
        more = len(report.problems) - 1
        also = f" (and {more} more {'problem' if more == 1 else 'problems'})" if more else ""
        raise ValueError(f"{report.folder}: {report.problems[0]}{also}")


def _text(report: Report) -> str:
    lines = [f"{file.name}  {file.problem or 'as sampled'}" for file in report.files]
    told = {f"{file.name}: {file.problem}" for file in report.files}
    lines += [problem for problem in report.problems if problem not in told]
    made = report.recipe
    lines.append(
        f"{made['architecture']}, dtype {made['dtype']}, scheme {made['scheme']},"
        f" seed {made['seed']}, stream version {made['stream_version']}"
    )
    what = (
        f"{', '.join(report.tensors)}: {report.num_bytes:,}"
        if report.tensors
        else f"{report.num_bytes:,}"
    )
    result = "are as sampled" if report.ok else "were looked at"
    lines.append(f"{what} bytes {result} ({report.seconds:.2f} s)")
    return "\n".join(map(one_line, lines))
