"""`fanin plan`: show what `fanin init` would write, what is wrong with it, and what it leads to."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from fanin.cli import recipe_options

if TYPE_CHECKING:
    from fanin.plan import Plan


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which checkpoint, and what is shown of it."""
    recipe_options.add(parser)
    parser.add_argument(
        "--against",
        metavar="SCHEME",
        help="show each tensor's RMS over what it is under another scheme, without overrides",
    )
    parser.add_argument(
        "--depth", action="store_true", help="show the predicted size of the signal block by block"
    )


def run(arguments: argparse.Namespace) -> None:
    """Make the plan and print it."""
    from fanin.plan import make_plan

    plan = recipe_options.plan(arguments)
    other = (
        None
        if arguments.against is None
        else make_plan(plan.model, scheme=arguments.against, seed=plan.seed, dtype=plan.dtype)
    )
    recipe_options.print_warnings(plan)
    if arguments.json:
        print(json.dumps({**plan.to_json(other), **_predictions(plan)}, indent=2))
    else:
        print("\n".join([plan.table(other), *_predicted(plan, arguments.depth)]))


def _predictions(plan: Plan) -> dict[str, object]:
    """The predictions that there are for the model, as JSON values."""
    from fanin.diagnose import predict_depth, predict_first_loss

    found = {"depth": predict_depth(plan), "first_loss": predict_first_loss(plan)}
    return {name: each.to_json() for name, each in found.items() if each is not None}


def _predicted(plan: Plan, table: bool) -> list[str]:
    """The same as text; of the depth a line or a table."""
    from fanin.diagnose import predict_depth, predict_first_loss

    depth, first = predict_depth(plan), predict_first_loss(plan)
    if table and depth is None:
        lines = [f"no prediction of the signal through {plan.model.architecture}"]
    else:
        lines = [str(depth)] if depth is not None else []
    if table and depth is not None:
        lines.insert(0, depth.table())
    return lines + ([str(first)] if first is not None else [])
