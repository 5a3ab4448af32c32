"""`crucible`, and `python -m pytest_crucible`, which is the same: the command, and the local Tinker server."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """`tinker-server` starts a server; everything else is for the `crucible` command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["tinker-server"]:
        from pytest_crucible.embedded.server import command

        return command.main(given[1:])
    from pytest_crucible import cli

    return cli.main(given)


if __name__ == "__main__":
    sys.exit(main())
