"""`fanin plan`: show what `fanin init` would write."""

from __future__ import annotations

import argparse
import json

from fanin.cli import recipe_options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which checkpoint."""
    recipe_options.add(parser)


def run(arguments: argparse.Namespace) -> None:
    """Make the plan and print it."""
    plan = recipe_options.plan(arguments)
    print(json.dumps(plan.to_json(), indent=2) if arguments.json else plan.table())
