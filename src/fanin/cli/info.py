"""`fanin info`: show what this installation is."""

from __future__ import annotations

import argparse
import json


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: it has no options."""


def run(arguments: argparse.Namespace) -> None:
    """Print the facts."""
    from fanin import installation

    if arguments.json:
        print(json.dumps(installation.config(), indent=2))
    else:
        installation.show_config()
