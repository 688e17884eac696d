"""The command `fanin`.

Results go to stdout and everything else to stderr, so that output can be piped; a user's mistake
is one line and never a traceback. What a command needs is imported when it runs: help and usage
errors are instant.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from fanin import __version__
from fanin.bench import command as benchmarks

if TYPE_CHECKING:
    from tqdm import tqdm

    from fanin.checkpoint import Report
    from fanin.plan import Plan

DONE, FAILED, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the program's name; by default those of the process.

    Returns
    -------
    int
        0 done, 1 failed, 2 wrong usage; 128 and the number of the signal that ended the run,
        as a shell says it: 130 for Ctrl-C, 143 for SIGTERM, 141 if stdout was closed early.
    """
    try:
        code = _run(argv)
        print(end="", flush=True)  # here, where an error is still an exit code
    except KeyboardInterrupt:
        return _fail("interrupted", 128 + signal.SIGINT)
    except _Terminated as terminated:
        return _fail(f"ended by {terminated.signal.name}", 128 + terminated.signal)
    except BrokenPipeError:
        # Python flushes stdout once more at exit; there is nobody to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{where}{error.strerror or error}")
    except MemoryError:
        return _fail("out of memory")
    except (ValueError, ImportError) as error:
        return _fail(str(error))
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # after help, the version or a usage error
        return stop.code if isinstance(stop.code, int) else DONE
    with _termination():
        arguments.run(arguments)
    return DONE


def _init(arguments: argparse.Namespace) -> None:
    from fanin import checkpoint

    plan = _plan(arguments)
    with _ProgressBar() as bar:
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


def _print_plan(arguments: argparse.Namespace) -> None:
    plan = _plan(arguments)
    print(json.dumps(plan.to_json(), indent=2) if arguments.json else plan.table())


def _print_info(arguments: argparse.Namespace) -> None:
    from fanin import installation

    if arguments.json:
        print(json.dumps(installation.config(), indent=2))
    else:
        installation.show_config()


def _plan(arguments: argparse.Namespace) -> Plan:
    from fanin import families
    from fanin.plan import make_plan

    return make_plan(
        families.load(arguments.config),
        scheme=arguments.scheme,
        seed=arguments.seed,
        dtype=arguments.dtype,
        overrides=arguments.overrides,
    )


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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"fanin: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fanin",
        description="Write the initial weights of a model as a checkpoint, from its config.json.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fanin {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    init = _command(commands, "init", _init, "write a checkpoint")
    _add_recipe(init)
    init.add_argument("output", metavar="OUTPUT", help="folder to write to; made if it is missing")
    init.add_argument(
        "--max-shard-size",
        metavar="SIZE",
        type=_size,
        default="5GB",
        help="most bytes of tensors in a file (KB = 1000, KiB = 1024); default 5GB",
    )
    init.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="default: FANIN_NUM_THREADS, OMP_NUM_THREADS or the CPUs that this process may use",
    )
    init.add_argument(
        "--overwrite", action="store_true", help="replace another checkpoint in OUTPUT"
    )
    init.add_argument("--dry-run", action="store_true", help="check everything, write nothing")

    plan = _command(commands, "plan", _print_plan, "list every tensor with its initializer")
    _add_recipe(plan)

    benchmarks.add_options(
        _command(
            commands, "bench", benchmarks.run, "measure speed and error beside other libraries"
        )
    )

    _command(commands, "info", _print_info, "show versions, instruction sets and threads")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=summary, description=f"{summary.capitalize()}.", allow_abbrev=False
    )
    command.add_argument("--json", action="store_true", help="print JSON for programs")
    command.set_defaults(run=run)
    return command


def _add_recipe(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "config", metavar="CONFIG", help="config.json, a folder with one, or a preset such as gpt2"
    )
    command.add_argument(
        "--seed", metavar="N", type=int, default=0, help="from 0 to 2**64 - 1; default 0"
    )
    command.add_argument("--dtype", metavar="DTYPE", help="default: the config's, or float32")
    command.add_argument(
        "--scheme",
        metavar="SCHEME",
        default="auto",
        help="default: auto, what the architecture's published code does",
    )
    command.add_argument(
        "--set",
        metavar="PATTERN=INITIALIZER",
        dest="overrides",
        type=_override,
        action="append",
        default=[],
        help="another initializer for the tensors of that name (* matches any text), such as"
        " 'lm_head.weight=normal(std=0.01)'; the last that matches decides",
    )


def _override(text: str) -> tuple[str, str]:
    # The pattern ends where an initializer begins; only a name without arguments leaves that open.
    equals = re.search(r"=(?=\s*\w+\s*\()", text) or re.search("=", text)
    if equals is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=INITIALIZER")
    return text[: equals.start()].strip(), text[equals.end() :].strip()


def _size(text: str) -> int:
    from fanin.safetensors_layout import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _fail(message: str, code: int = FAILED) -> int:
    print(f"fanin: error: {message}", file=sys.stderr)
    return code


class _Terminated(BaseException):
    """The signal that ends a batch job, as an exception: unfinished files are removed."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)


@contextlib.contextmanager
def _termination() -> Iterator[None]:
    def stop(number: int, frame: object) -> NoReturn:
        raise _Terminated(number)

    # A signal that the caller ignores (nohup) stays ignored.
    signals = (signal.SIGTERM, signal.SIGHUP)
    taken = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


class _ProgressBar:
    """A bar of bytes on stderr if that is a terminal."""

    _bar: tqdm[NoReturn] | None = None

    def __enter__(self) -> _ProgressBar:
        return self

    def show(self, done: int, total: int) -> None:
        if self._bar is None:
            if sys.stderr is None or not sys.stderr.isatty():
                return
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="B", unit_scale=True, leave=False)
        self._bar.update(done - self._bar.n)

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
