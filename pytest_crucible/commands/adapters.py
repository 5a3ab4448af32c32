"""`crucible adapters`: what --crucible-adapter and --compare can name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from pytest_crucible.commands.options import json_option, say
from pytest_crucible.plan.adapters import read_adapters
from pytest_crucible.redaction import cleaned, hider, secrets_in
from pytest_crucible.wire import to_plain

HEADERS = ("name", "backend", "where", "parameters")


@click.command("adapters", short_help="The adapters that this directory configures.")
@json_option
def command(as_json: bool) -> None:
    """The adapters that crucible.toml or pyproject.toml in this directory configures. Keys are not shown."""
    tables = to_plain(list(read_adapters(Path.cwd()).values()))
    found = cleaned(tables, hider(secrets_in(tables)))
    rows = [(one["name"], one["backend"], _settings(one["options"]), _settings(one["parameters"])) for one in found]
    lines = tabulate([HEADERS, *rows], tablefmt="plain").splitlines()
    nothing = ["no adapters here: add a table [adapters.NAME] to crucible.toml"]
    say(lines if rows else nothing, found, as_json=as_json)


def _settings(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in table.items())
