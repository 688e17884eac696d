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
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="sample whole files that are there again and compare them; default",
    )
    parser.add_argument(
        "--fsync",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="have each file on the disk before it gets its name; default",
    )
    parser.add_argument(
        "--rank",
        metavar="N",
        type=int,
        help="number of this process, from 0, of those that write this checkpoint together;"
        " default: what torchrun, mpirun or srun set",
    )
    parser.add_argument("--world-size", metavar="N", type=int, help="how many these are")


def run(arguments: argparse.Namespace) -> None:
    """Make the plan and write it."""
    from fanin import checkpoint
    from fanin.checkpoint.ranks import find_rank

    rank = find_rank(arguments.rank, arguments.world_size)
    if rank.world_size > 1 and rank.source:
        print(
            f"fanin: note: process {rank.rank} of {rank.world_size}, by {rank.source}; to write"
            " everything alone: --rank 0 --world-size 1",
            file=sys.stderr,
        )
    plan = recipe_options.plan(arguments)
    if rank.rank == 0:
        recipe_options.print_warnings(plan)
    with ProgressBar(shown=rank.rank == 0) as bar:
        report = checkpoint.write(
            plan,
            arguments.output,
            max_shard_size=arguments.max_shard_size,
            threads=arguments.threads,
            overwrite=arguments.overwrite,
            dry_run=arguments.dry_run,
            check=arguments.check,
            fsync=arguments.fsync,
            rank=rank.rank,
            world_size=rank.world_size,
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
    if report.world_size > 1:
        lines.append(f"process {report.rank} of {report.world_size}, numbered from 0")
    if dry_run:
        return "\n".join(lines)
    lack = f"still lacks {len(report.missing)} of the files, which are other processes'"
    state = lack if report.missing else "is complete"
    lines.append(f"{report.folder} {state} ({report.seconds:.2f} s)")
    return "\n".join(lines)


def _size(text: str) -> int:
    from fanin.checkpoint.safetensors_layout import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
