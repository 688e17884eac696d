"""The options that say which checkpoint is meant: a config, and how its tensors are filled."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanin.plan import Plan


def add(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of a command."""
    parser.add_argument(
        "config", metavar="CONFIG", help="config.json, a folder with one, or a preset such as gpt2"
    )
    parser.add_argument(
        "--like",
        action="store_true",
        help="CONFIG is a checkpoint (a folder, or a safetensors file): copy the names, shapes and"
        " dtypes in its headers; its config.json, if there is one, says what they are",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="from 0 to 2**64 - 1; default 0")
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
        help="a name, or one with options, such as 'mup(base_width=256)'; default: auto, what the"
        " architecture's published code does",
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

    parser.add_argument(
        "--rules",
        metavar="FILE",
        help="TOML file with a table [rules] of PATTERN = INITIALIZER and, if need be, a scheme, a"
        " seed, a dtype and a table [dtypes]; the options here count more",
    )


def plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan that the options describe."""
    from fanin import families
    from fanin.checkpoint.like import model_like
    from fanin.plan import make_plan
    from fanin.plan.overrides import replacing
    from fanin.plan.rules_file import RulesFile, read_rules_file

    file = RulesFile() if arguments.rules is None else read_rules_file(arguments.rules)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the plan has its own
        return make_plan(
            model_like(arguments.config) if arguments.like else families.load(arguments.config),
            scheme=_first(arguments.scheme, file.scheme, "auto"),
            seed=_first(arguments.seed, file.seed, 0),
            dtype=_first(arguments.dtype, file.dtype),
            overrides=replacing(file.overrides, arguments.overrides),
            dtypes=[*file.dtypes, *arguments.dtypes],
        )


def print_warnings(plan: Plan) -> None:
    """Say on stderr what is probably wrong with the recipe."""
    for warning in plan.warnings:
        print(f"fanin: warning: {warning}", file=sys.stderr)


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


def _first(*values: Any) -> Any:
    """The first that was given."""
    return next((value for value in values if value is not None), None)
