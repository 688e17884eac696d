"""The options that say which checkpoint is meant: a config, and how its tensors are filled."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanin.plan import Plan


def add(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of a command."""
    parser.add_argument(
        "config", metavar="CONFIG", help="config.json, a folder with one, or a preset such as gpt2"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="from 0 to 2**64 - 1; default 0"
    )
    parser.add_argument("--dtype", metavar="DTYPE", help="default: the config's, or float32")
    parser.add_argument(
        "--set-dtype",
        metavar="PATTERN=DTYPE",
        dest="dtypes",
        type=tensor_dtype,
        action="append",
        default=[],
        help="another dtype for the tensors of that name, such as '*norm*=float32'",
    )
    parser.add_argument(
        "--scheme",
        metavar="SCHEME",
        default="auto",
        help="default: auto, what the architecture's published code does",
    )
    parser.add_argument(
        "--set",
        metavar="PATTERN=INITIALIZER",
        dest="overrides",
        type=override,
        action="append",
        default=[],
        help="another initializer for the tensors of that name (* matches any text), such as"
        " 'lm_head.weight=normal(std=0.01)'; the last that matches decides",
    )


def plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan that the options describe."""
    from fanin import families
    from fanin.plan import make_plan

    return make_plan(
        families.load(arguments.config),
        scheme=arguments.scheme,
        seed=arguments.seed,
        dtype=arguments.dtype,
        overrides=arguments.overrides,
        dtypes=arguments.dtypes,
    )


def override(text: str) -> tuple[str, str]:
    """Split PATTERN=INITIALIZER."""
    # The pattern ends where an initializer begins; only a name without arguments leaves that open.
    equals = re.search(r"=(?=\s*\w+\s*\()", text) or re.search("=", text)
    if equals is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=INITIALIZER")
    return text[: equals.start()].strip(), text[equals.end() :].strip()


def tensor_dtype(text: str) -> tuple[str, str]:
    """Split PATTERN=DTYPE."""
    pattern, equals, dtype = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=DTYPE")
    return pattern.strip(), dtype.strip()
