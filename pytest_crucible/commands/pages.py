"""Commands with pages: options of other plugins that show something else of the same thing."""

from __future__ import annotations

import click

from pytest_crucible.records.object_reference import load_object
from pytest_crucible.runs.plugins import commands, pages_of


class WithPages(click.Command):
    """A command whose help also has the options that show a page."""

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
