"""The `crucible` program. Commands have names such as `models register`, and are imported when they are called."""

from __future__ import annotations

import atexit
import gc
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from pytest_crucible.features.row import Command
from pytest_crucible.records.errors import CrucibleError, closest_name
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.report.printable import printable
from pytest_crucible.runs.plugins import commands, pages_of
from pytest_crucible.stats.interval import NotEnoughData

# The meanings of pytest.ExitCode, without importing pytest.
HELD, DID_NOT_HOLD, INTERRUPTED, USAGE = 0, 1, 2, 4
# The command that a group runs when none is named.
DEFAULT = "list"
# New objects before a garbage collection: a command imports and shows with fewer. Python's own limit is 700.
SELDOM = 100_000
HEADINGS = {
    "Runs": (
        "runs",
        "show",
        "view",
        "why",
        "trace",
        "verify",
        "compare",
        "merge",
        "nodes",
        "report",
        "trend",
        "export",
        "import",
    ),
    "Suites": ("init", "adapters", "metrics", "plan", "calibrate", "doctor", "gc"),
    "Models, data and guards": ("models", "data", "guards"),
    "Tinker": ("tinker",),
}
"""The headings of the program's help; other commands, of installed packages, stand below `Plugins`."""
GROUPS = {
    "runs": "The runs in the store, newest first",
    "models": "Versions of models, from draft to production",
    "models gate": "What a run has to show before a version is promoted",
    "data": "Datasets, and checks of them",
    "guards": "Guards and attacks",
    "tinker": "Training runs and checkpoints of a Tinker service",
}


class Group(click.Group):
    """The commands of the table whose names begin with this group's, `models` for `models register`."""

    def __init__(self, path: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.path = path

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_children(self.path))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = f"{self.path} {cmd_name}".strip()
        if name in commands():
            command: click.Command = load_object(commands()[name])
            return command
        return Group(name, name=cmd_name, help=_group_summary(name)) if _children(name) else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[:1] and args[0].startswith("-") and args[0] not in ctx.help_option_names
        if DEFAULT in _children(self.path) and (options or not args) and not ctx.resilient_parsing:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = f"{self.path} {args[0]}".strip()
        if args[0] not in _children(self.path) and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {name!r}: {_hint(name, self.path)}", ctx)
        page = _requested_page(name, args[1:])
        if page:
            return args[0], load_object(commands()[page]), args[1:]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_commands(formatter, "Commands", self.list_commands(ctx))

    def write_commands(
        self, formatter: click.HelpFormatter, heading: str, names: Sequence[str], width: int = 0
    ) -> None:
        """Write commands below a heading, each with a line on it; their column has at least this width."""
        rows = [(name.ljust(width), _summary(f"{self.path} {name}".strip())) for name in names]
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        if DEFAULT in _children(self.path):
            formatter.write_paragraph()
            formatter.write_text(f"Without a command, it is `{ctx.command_path} {DEFAULT}`, with its options.")


class Program(Group):
    """All commands, below headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        children = self.list_commands(ctx)
        width = max(map(len, children))
        under = {name: heading for heading, names in HEADINGS.items() for name in names}
        for heading in (*HEADINGS, "Plugins"):
            named = [name for name in children if under.get(name, "Plugins") == heading]
            self.write_commands(formatter, heading, named, width)


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="pytest-crucible", prog_name="crucible")
def program() -> None:
    """Commands of pytest-crucible for use outside of a test session."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return pytest's exit statuses: 0, 1 a verdict or check failed, 2 interrupted, 4 usage error."""
    if arguments is None:
        # In a process of its own: collections during imports take 4 to 10 % of `crucible show`, and find nothing; so does the
        # last one, when the interpreter ends.
        gc.set_threshold(SELDOM)
        atexit.register(gc.freeze)
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = "crucible"
    try:
        # Inside the try block, because `commands` loads plugins and may raise.
        name = " ".join(["crucible", *_command_words(words)])
        return program.main(words, prog_name="crucible", standalone_mode=False) or HELD
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    # Also while plugins are loaded, before click takes Ctrl-C for an abort.
    except (click.Abort, KeyboardInterrupt):
        return _print_error(f"{name}: interrupted", INTERRUPTED)
    except click.ClickException as error:
        return _print_error(f"{name}: {_sentence(error.format_message())}", USAGE)
    except (CrucibleError, ValueError, NotEnoughData) as error:
        # The option of a session that the commands have under a shorter name.
        sentence = str(error).replace("--crucible-store", "--store")
        return _print_error(f"{name}: {sentence}", USAGE)
    # Standard output may go to a full disk; commands report errors of the files that they write.
    except OSError as error:
        return _print_error(
            f"{name}: {error.filename or 'the output'} cannot be written: {error.strerror or error}", USAGE
        )
    return USAGE


def _children(path: str) -> list[str]:
    """Return the next words of all names that begin with a path: `gate` of `models gate freeze` for `models`."""
    words = [name.split() for name in commands()]
    depth = len(path.split())
    children = [word[depth] for word in words if len(word) > depth and word[:depth] == path.split()]
    return [child for child in dict.fromkeys(children) if not child.startswith("-")]


def _summary(name: str) -> str:
    """Return a line on a command or a group. A command of the package is not imported for it."""
    reference = commands().get(name)
    if reference is None:
        return _group_summary(name)
    if isinstance(reference, Command):
        return reference.summary
    command: click.Command = load_object(reference)
    return command.get_short_help_str(100)


def _group_summary(name: str) -> str:
    title = GROUPS.get(name, name.rpartition(" ")[2].capitalize())
    return f"{title}: {', '.join(_children(name))}."


def _requested_page(command: str, args: Sequence[str]) -> str:
    """Return the name of the page that arguments ask for; empty for none. Raises click.UsageError for several."""
    options = [arg.partition("=")[0] for arg in args]
    pages = {option: name for option, name in pages_of(command).items() if option in options}
    if len(pages) > 1:
        raise click.UsageError(f"{' and '.join(pages)} are pages of their own: write one of them")
    return next(iter(pages.values()), "")


def _command_words(words: Iterable[str]) -> Iterator[str]:
    """Yield the words that name a command: `models`, `register`."""
    path = ""
    for word in words:
        if word not in _children(path):
            return
        yield word
        path = f"{path} {word}".strip()


def _hint(name: str, path: str) -> str:
    """Return which command was meant: one with the same last words, then one whose code has the word, then a similar name."""
    word = name.removeprefix(path).strip()
    groups = [name.rpartition(" ")[0] for name in commands() if " " in name and " --" not in name]
    ends = [candidate for candidate in [*groups, *commands()] if f" {candidate}".endswith(f" {word.replace('-', ' ')}")]
    has_word = [candidate for candidate, reference in commands().items() if word in re.split(r"[.:]", str(reference))]
    similar = [candidate for candidate in [*commands(), *groups] if candidate.startswith(f"{path} ".lstrip())]
    near = closest_name(name, similar) or closest_name(word, similar)
    meant = next(iter([*ends, *has_word, *filter(None, [near])]), None)
    return f"did you mean {meant!r}?" if meant else f"there are {', '.join(_children(path))}"


def _print_error(sentence: str, status: int) -> int:
    # Imported here, as the help needs none of it. A message quotes what was given, which may be a key.
    from pytest_crucible.records.secret_settings import process_hider

    click.echo(process_hider()(printable(sentence)), err=True)
    return status


def _sentence(message: str) -> str:
    """Return click's message in the form of our own: one line, without a capital and a full stop."""
    line = " ".join(message.split()).removesuffix(".")
    return line[:1].lower() + line[1:]
