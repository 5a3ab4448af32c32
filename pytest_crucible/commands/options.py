"""What several commands take and give alike: a run, the store that it is in, and JSON for programs. Opens no store itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from pytest_crucible.wire import to_plain

DEFAULT_STORE = ".crucible/crucible.db"

run_argument = click.argument("run", default="")
"""RUN: the id of a run, or its beginning; without one it is the latest run."""
store_option = click.option(
    "--store",
    envvar="CRUCIBLE_STORE",
    default=DEFAULT_STORE,
    metavar="WHERE",
    help="Run store: a path or a database URL; CRUCIBLE_STORE says the same.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")


def say(lines: Iterable[str], document: Any, *, as_json: bool) -> None:
    """Lines for people, or the same as a JSON document."""
    if as_json:
        click.echo(json.dumps(to_plain(document), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        click.echo("\n".join(lines))
