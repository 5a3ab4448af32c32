"""The `crucible` program. Each command is a module of `commands`, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from pytest_crucible.commands.plugins import commands
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.process_secrets import process_hider
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.report.printable import printable
from pytest_crucible.stats.interval import NotEnoughData

# The meanings of pytest.ExitCode, without importing pytest.
HELD, DID_NOT_HOLD, INTERRUPTED, USAGE = 0, 1, 2, 4


class Program(click.Group):
    """Imports a command when it is called: a command that compares runs must not load a server, nor the other way round."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command | None = load_object(commands().get(cmd_name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in commands() and not ctx.resilient_parsing:
            hint = suggest(args[0], commands(), otherwise=f"there are {', '.join(commands())}")
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="pytest-crucible", prog_name="crucible")
def program() -> None:
    """Commands of pytest-crucible for use outside of a test session."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return pytest's exit statuses: 0, 1 a verdict or check failed, 2 interrupted, 4 usage error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = "crucible"
    try:
        # Inside the try block, because `commands` loads plugins and may raise.
        name = " ".join([name, *(word for word in words[:1] if word in commands())])
        return program.main(words, prog_name="crucible", standalone_mode=False) or HELD
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    except click.Abort:
        return _print_error(f"{name}: interrupted", INTERRUPTED)
    except click.ClickException as error:
        return _print_error(f"{name}: {_sentence(error.format_message())}", USAGE)
    except (CrucibleError, NotEnoughData, ValueError) as error:
        return _print_error(f"{name}: {error}", USAGE)
    # Standard output may go to a full disk; commands report errors of the files that they write.
    except OSError as error:
        return _print_error(
            f"{name}: {error.filename or 'the output'} cannot be written: {error.strerror or error}", USAGE
        )
    return USAGE


def _print_error(sentence: str, status: int) -> int:
    # A message quotes what was given, which may be a key.
    click.echo(process_hider()(printable(sentence)), err=True)
    return status


def _sentence(message: str) -> str:
    """Return click's message in the form of our own: one line, without a capital and a full stop."""
    line = " ".join(message.split()).removesuffix(".")
    return line[:1].lower() + line[1:]
