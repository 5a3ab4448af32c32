"""Options and output that commands share: a run, its run store, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.runs.pytest_configuration import session_store

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
group_option = click.option(
    "--group",
    default="",
    metavar="KEY",
    help="Key of the samples' metadata, or column of a table: samples with one value of it are a group.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_result(lines: Iterable[str], document: Any, *, as_json: bool) -> None:
    """Print lines, or the same as a JSON document."""
    if as_json:
        click.echo(json.dumps(to_plain(document), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        click.echo("\n".join(lines))
