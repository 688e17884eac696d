"""`fanin init`: write a checkpoint, or finish one."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fanin.cli import recipe_options
from fanin.cli.progress import ProgressBar

if TYPE_CHECKING:
    from fanin.checkpoint import Report
    from fanin.plan import Plan


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which checkpoint, where, and how it is written."""
    recipe_options.add(parser)
    parser.add_argument(
        "output", metavar="OUTPUT", help="folder to write to; made if it is missing"
    )
    parser.add_argument(
        "--max-shard-size",
        metavar="SIZE",
        type=_size,
        default="5GB",
        help="most bytes of tensors in a file (KB = 1000, KiB = 1024); default 5GB",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="default: FANIN_NUM_THREADS, OMP_NUM_THREADS or the CPUs that this process may use",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace another checkpoint in OUTPUT"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, write nothing")


def run(arguments: argparse.Namespace) -> None:
    """Make the plan and write it."""
    from fanin import checkpoint

    plan = recipe_options.plan(arguments)
    with ProgressBar() as bar:
        report = checkpoint.write(
            plan,
            arguments.output,
            max_shard_size=arguments.max_shard_size,
            threads=arguments.threads,
            overwrite=arguments.overwrite,
            dry_run=arguments.dry_run,
            progress=bar.show,
        )
    for note in report.notes:
        print(f"fanin: note: {note}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({**report.to_json(), "dry_run": arguments.dry_run}, indent=2))
    else:
        print(_report_text(plan, report, arguments.dry_run))


def _report_text(plan: Plan, report: Report, dry_run: bool) -> str:
    states = {True: "kept", False: "would be written" if dry_run else "written"}
    lines = [f"{file.name}  {file.num_bytes:,} bytes  {states[file.kept]}" for file in report.files]
    lines.append(
        f"{plan.model.architecture}: {report.num_parameters:,} parameters,"
        f" {report.num_bytes:,} bytes, dtype {plan.dtype}, scheme {plan.scheme}, seed {plan.seed}"
    )
    if not dry_run:
        lines.append(f"{report.folder} is complete ({report.seconds:.2f} s)")
    return "\n".join(lines)


def _size(text: str) -> int:
    from fanin.safetensors_layout import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
