"""Options and output that commands share: a run, its run store, and JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import click

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.process_secrets import process_hider
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import DEFAULT_STORE
from pytest_crucible.runs.run_store import session_store

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
column_option = click.option(
    "--column", "columns", multiple=True, metavar="ROLE=NAME", help="Role of a table's column; may be repeated."
)
group_option = click.option(
    "--group",
    default="",
    metavar="KEY",
    help="Key of the samples' metadata, or column of a table: samples with one value of it are a group.",
)
range_option = click.option(
    "--range", "ranges", multiple=True, metavar="METRIC=LOW:HIGH", help="Range of a metric's values; may be repeated."
)
reach_option = click.option(
    "--reach",
    "reaches",
    multiple=True,
    metavar="METRIC=NUMBER",
    help="Largest change of one sample, between two arms, that is possible for a metric; may be repeated.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_result(lines: Iterable[str], document: Any, *, as_json: bool) -> None:
    """Print lines, or the same as a JSON document, without keys."""
    hide = process_hider()
    if as_json:
        plain = redact(to_plain(document), hide)
        click.echo(json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        click.echo("\n".join(map(hide, lines)))


def parse_columns(texts: Sequence[str]) -> dict[str, str]:
    """Parse `--column ROLE=NAME` options as a mapping from role to column. Raises SpecError for an invalid one."""
    return dict(map(_parse_column, texts))


def _parse_column(text: str) -> tuple[str, str]:
    role, _, name = text.partition("=")
    if not name:
        raise SpecError(f"--column={text!r} cannot be read: write ROLE=NAME, such as sample=question_id")
    return role, name


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Parse `--range METRIC=LOW:HIGH` options as a mapping from metric to bounds. Raises SpecError for an invalid one."""
    return dict(map(_parse_range, texts))


def _parse_range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.rpartition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        # Not a number: every comparison with it is false, so the check below refuses it too.
        low = high = math.nan
    if not name or not low < high:
        raise SpecError(f"--range={text!r} cannot be read: write METRIC=LOW:HIGH, such as quality=1:5")
    return name, (low, high)


def parse_reaches(texts: Sequence[str]) -> dict[str, float]:
    """Parse `--reach METRIC=NUMBER` options as a mapping from metric to reach. Raises SpecError for an invalid one."""
    return dict(map(_parse_reach, texts))


def _parse_reach(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        reach = float(number)
    except ValueError:
        reach = math.nan
    if not name or not 0 < reach < math.inf:
        raise SpecError(f"--reach={text!r} cannot be read: write METRIC=NUMBER, such as quality=0.25")
    return name, reach
