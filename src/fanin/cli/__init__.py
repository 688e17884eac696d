"""The command `fanin`: a module for each of its commands, and here what they share.

Results go to stdout and everything else to stderr, so that output can be piped; a user's mistake
is one line and never a traceback. What a command needs is imported when it runs: help and usage
errors are instant.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from fanin import __version__
from fanin.cli import bench, info, init, plan, verify
from fanin.cli.printable import one_line

__all__ = ["main"]

COMMANDS = {
    "init": (init, "write a checkpoint"),
    "plan": (plan, "list every tensor with its initializer"),
    "verify": (verify, "sample a checkpoint again and compare every bit"),
    "bench": (bench, "measure speed and error beside other libraries"),
    "info": (info, "show versions, instruction sets and threads"),
}
"""Name -> (module, summary). A module has `add_options(parser)` and `run(arguments)`."""

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
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have any bytes
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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"fanin: error: {one_line(message)}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fanin",
        description="Write the initial weights of a model as a checkpoint, from its config.json.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fanin {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=f"{summary.capitalize()}.", allow_abbrev=False
        )
        command.add_argument("--json", action="store_true", help="print JSON for programs")
        command.set_defaults(run=module.run)
        module.add_options(command)
    return parser


def _fail(message: str, code: int = FAILED) -> int:
    print(f"fanin: error: {one_line(message)}", file=sys.stderr)
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
