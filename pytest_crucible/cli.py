"""The `crucible` command: what is done outside of a test session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pytest_crucible import calibrating, exporting, listing, reporting
from pytest_crucible.errors import CrucibleError

SERVER = "tinker-server"
"""Listed here; `__main__` starts it before anything else is imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 when what was asked did not hold, 2 for what cannot be asked (as argparse has it)."""
    parser = argparse.ArgumentParser(
        prog="crucible", description="What pytest-crucible does outside of a test session."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    calibrating.add_command(commands)
    exporting.add_command(commands)
    listing.add_command(commands)
    reporting.add_command(commands)
    commands.add_parser(SERVER, help="a Tinker service on this machine, with a small model that trains and samples")
    given = parser.parse_args(arguments)
    try:
        return int(given.run_command(given))
    except (CrucibleError, ValueError) as error:
        print(f"crucible {given.command}: {error}", file=sys.stderr)
        return 2
