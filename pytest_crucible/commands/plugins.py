"""Plugins of the `crucible` program: modules that installed packages name in the entry point group `pytest_crucible`.

The program runs without pytest, and so without conftest.py files: what it offers has to be installed.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

import click
import pluggy

from pytest_crucible import builtin, hookspecs
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object

if TYPE_CHECKING:
    from pytest_crucible.importers.results import Reader

GROUP = "pytest_crucible"


class ProgramPlugins(pluggy.PluginManager):
    """A plugin manager that treats every function with our hook prefix as an implementation, as pytest does."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None and name.startswith("pytest_crucible_") and inspect.isroutine(getattr(plugin, name)):
            unmarked: pluggy.HookimplOpts = {
                "wrapper": False,
                "hookwrapper": False,
                "optionalhook": False,
                "tryfirst": False,
                "trylast": False,
                "specname": None,
            }
            return unmarked
        return options


@cache
def program_plugins() -> ProgramPlugins:
    """Return the built-in plugin and those that are installed. Raises SpecError for one that cannot be loaded."""
    plugins = ProgramPlugins("pytest")
    plugins.add_hookspecs(hookspecs)
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        try:
            plugins.register(entry.load(), entry.name)
        # A plugin can raise anything while it is imported.
        except Exception as error:
            raise SpecError(
                f"plugin {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; "
                "update or uninstall the package that it is from"
            ) from error
    # Registered last: pluggy calls the last plugin first, so the built-in commands come first in the help.
    plugins.register(builtin, "crucible-builtin")
    return plugins


def commands() -> dict[str, Any]:
    """Return all commands by name, in the order of the help. Raises SpecError when two plugins offer one name."""
    return builtin.merge_offers(program_plugins().hook.pytest_crucible_commands(), "command")


def pages_of(command: str) -> dict[str, str]:
    """Return option -> name of a page: `--by` -> `show --by`, a command that `show` calls where it is given the option."""
    return {name.rpartition(" ")[2]: name for name in commands() if name.startswith(f"{command} --")}


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


def importers() -> dict[str, Reader]:
    """Return the readers of all formats by the harness's name, in the order in which they are tried. Raises SpecError."""
    offers = builtin.merge_offers(reversed(program_plugins().hook.pytest_crucible_importers()), "importer")
    return {name: load_object(reader) for name, reader in offers.items()}
