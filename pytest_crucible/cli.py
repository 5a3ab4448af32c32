"""The `crucible` command: what is done with a run store outside of a test session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pytest_crucible import calibrating
from pytest_crucible.errors import CrucibleError


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 when what was asked did not hold, 2 for what cannot be asked (as argparse has it)."""
    parser = argparse.ArgumentParser(prog="crucible", description="Look into the run store of pytest-crucible.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    calibrating.add_command(commands)
    given = parser.parse_args(arguments)
    try:
        return int(given.run_command(given))
    except (CrucibleError, ValueError) as error:
        print(f"crucible {given.command}: {error}", file=sys.stderr)
        return 2
