"""Options, arguments and output that commands share: a run and its store, a dataset, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.secret_settings import process_hider
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.report.printable import printable_json
from pytest_crucible.runs.plugins import commands, pages_of
from pytest_crucible.runs.run_store import session_store

if TYPE_CHECKING:
    from pytest_crucible.datasets.release import Release
    from pytest_crucible.records import Sample, View


class WithPages(click.Command):
    """A command whose help also has the options that show a page."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. An option of a page that was not asked for is an error that names the page."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = ctx.command_path.partition(" ")[2]
            owners = [option for option, page in pages_of(name).items() if _has_option(page, error.option_name)]
            if not owners:
                raise
            sentence = f"{error.option_name} is an option of `crucible {name} {' and '.join(owners)}`: add {' or '.join(owners)}"
            raise click.UsageError(sentence, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, and those that show a page with options of its own."""
        super().format_options(ctx, formatter)
        pages = pages_of(ctx.command_path.partition(" ")[2])
        options = [
            option.get_help_record(ctx)
            for name, page in pages.items()
            for option in load_object(commands()[page]).params
            if name in option.opts
        ]
        if options:
            with formatter.section("Pages, each with a --help of its own"):
                formatter.write_dl([record for record in options if record])


class Page(click.Command):
    """A page of a command. An option of the command that the page lacks is an error that says so."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        options = {arg.partition("=")[0] for arg in args}
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = ctx.command_path.partition(" ")[2]
            pages = pages_of(name)
            others = [name, *(page for option, page in pages.items() if option not in options)]
            if not any(_has_option(other, error.option_name) for other in others):
                raise
            own = min(options & set(pages))
            raise click.UsageError(
                f"{error.option_name} and {own} are of different pages: leave one of them out", ctx
            ) from None


def _has_option(command: str, option: str) -> bool:
    return any(option in param.opts for param in load_object(commands()[command]).params)


# RUN is a run's id, or its beginning. Empty by default, which the run store resolves to the latest run.
run_argument = click.argument("run", default="")
store_option = click.option(
    "--store",
    envvar="CRUCIBLE_STORE",
    default=session_store,
    show_default=f"crucible_store of pytest's configuration, else {DEFAULT_STORE}",
    metavar="WHERE",
    help="Run store: a path or a database URL (env: CRUCIBLE_STORE).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def add_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in this order of its help."""

    def add(command: Any) -> Any:
        # click lists options in the reverse order in which they are added.
        for option in reversed(options):
            command = option(command)
        return command

    return add


def print_result(lines: Iterable[str], document: Any, *, as_json: bool) -> None:
    """Print lines, or the same as a JSON document, without keys."""
    hide = process_hider()
    if as_json:
        plain = redact(to_plain(document), hide)
        click.echo(printable_json(json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)))
    else:
        click.echo("\n".join(map(hide, lines)))


def print_view(view: View, output: Path | None, *, as_json: bool) -> None:
    """Print a view, or write it into a file and print its first note."""
    # Imported here: most commands print lines of their own.
    from pytest_crucible.report.markdown import view_lines, write_view

    if output is None:
        print_result(view_lines(view), view.document, as_json=as_json)
    else:
        write_view(view, output)
        click.echo(f"wrote {output}: {view.notes[0].text}")


field_option = click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the file: input=question."
)
output_option = click.option(
    "-o", "output", type=click.Path(path_type=Path), help="Write a file instead: .html, .md or .json.", metavar="FILE"
)


def load_dataset(name: str, fields: Sequence[str] = ()) -> tuple[Sequence[Sample], Release | None]:
    """Return the samples of a dataset, and its release if it has one. Raises DatasetError for an unknown name."""
    # Imported here: other commands read no dataset.
    from pytest_crucible.builtin import check_dataset_name, find_release
    from pytest_crucible.datasets import load_file, load_rows

    release, renamed = find_release(name), dict(map(parse_field, fields))
    if release is not None:
        return load_rows(release, name=name, fields=renamed, has_option=True), release
    if not Path(name).exists():
        check_dataset_name(name)
    return load_file(Path(name), fields=renamed, has_option=True), None


def parse_field(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise SpecError(f"--field {text} is not a pair: write OURS=THEIRS, such as input=question")
    return ours, theirs


embeddings_option = click.option(
    "--embeddings", is_flag=True, help="Compare the meaning of texts, by MiniLM (extra [semantic])."
)
