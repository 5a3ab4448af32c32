"""The `crucible` program: what is done outside of a test session. Each command is a module of `commands`, opened when asked for."""

from __future__ import annotations

import difflib
import importlib
import keyword
import sys
from collections.abc import Sequence

import click

from pytest_crucible.errors import CrucibleError

COMMANDS = (
    "runs",
    "show",
    "compare",
    "report",
    "trend",
    "plan",
    "promote",
    "adapters",
    "datasets",
    "metrics",
    "calibrate",
    "export",
    "import",
    "gc",
    "doctor",
    "tinker-server",
)
"""In the order of the help. A new command is a module of this name, its dashes as underscores, and a name here.
Behind a word of Python's own goes an underscore."""
HELD, DID_NOT_HOLD, INTERRUPTED, USAGE = 0, 1, 2, 4
"""What pytest.ExitCode means by them."""


class Program(click.Group):
    """Imports a command when it is named: a server is not to open what compares runs, nor the other way round."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_") + "_" * keyword.iskeyword(cmd_name)
        module = importlib.import_module(f"pytest_crucible.commands.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="pytest-crucible", prog_name="crucible")
def program() -> None:
    """What pytest-crucible does outside of a test session."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status, which means what pytest's does: 0, 1 what was asked did not hold, 2 interrupted, 4 it cannot be asked."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = " ".join(["crucible", *(one for one in given[:1] if one in COMMANDS)])
    try:
        return program.main(given, prog_name="crucible", standalone_mode=False) or HELD
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    except click.Abort:
        return _told(f"{name}: interrupted", INTERRUPTED)
    except click.ClickException as error:
        return _told(f"{name}: {_sentence(error.format_message())}", USAGE)
    except (CrucibleError, ValueError) as error:
        return _told(f"{name}: {error}", USAGE)
    except OSError as error:  # a full disk behind standard output: what is asked for by name is told by its command
        return _told(f"{name}: {error.filename or 'what it found'} cannot be written: {error.strerror or error}", USAGE)
    return USAGE


def _told(sentence: str, status: int) -> int:
    click.echo(sentence, err=True)
    return status


def _sentence(message: str) -> str:
    """What click says, as all others say it: one line, without a capital and a full stop."""
    line = " ".join(message.split()).removesuffix(".")
    return line[:1].lower() + line[1:]
