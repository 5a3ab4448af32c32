"""`crucible adapters`: the adapters that --crucible-adapter and --compare can name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.records.redaction import hider, redact
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import aligned_lines

HEADERS = ("name", "backend", "where", "parameters")


@click.command("adapters", short_help="The adapters that this directory configures.")
@json_option
def command(as_json: bool) -> None:
    """List the adapters in crucible.toml or pyproject.toml of this directory. Keys are not shown."""
    tables = to_plain(list(read_adapters(Path.cwd()).values()))
    # A key may also be written out in a parameter or a URL of another adapter.
    adapters = redact(tables, hider(secrets_in(tables, os.environ)))
    rows = [
        (adapter["name"], adapter["backend"], _settings(adapter["options"]), _settings(adapter["parameters"]))
        for adapter in adapters
    ]
    lines = aligned_lines([HEADERS, *rows])
    nothing = ["no adapters here: add a table [adapters.NAME] to crucible.toml"]
    print_result(lines if rows else nothing, adapters, as_json=as_json)


def _settings(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in table.items())
