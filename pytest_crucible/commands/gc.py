"""`crucible gc`: keep the run store small."""

from __future__ import annotations

import datetime

import click

from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.numerals import counted
from pytest_crucible.store.clearing import clear, clearable


@click.command("gc", short_help="Remove what is old from the run store.")
@click.option("--keep-runs", type=click.IntRange(min=0), default=20, metavar="N", help="The newest runs stay.")
@click.option("--keep-days", type=click.FloatRange(min=0), default=90.0, metavar="D", help="Younger ones stay too.")
@click.option(
    "--cache-days",
    type=click.FloatRange(min=0),
    metavar="D",
    show_default="all stay",
    help="Cached replies that are younger stay.",
)
@click.option("--delete", is_flag=True, help="Do it; without this it is only said what would go.")
@store_option
@json_option
def command(
    keep_runs: int, keep_days: float, cache_days: float | None, delete: bool, store: str, as_json: bool
) -> None:
    """Remove runs that are neither among the newest nor young, with all their answers, and cached replies that are old.

    A run that has a tag or was promoted stays, and so does one that is running. Without --delete nothing is removed: it is
    said what would be. A dataset goes with the last run that asked it.
    """
    at = datetime.datetime.now(datetime.UTC)
    with existing_store(store) as opened:
        found = clearable(opened, at=at, keep_runs=keep_runs, keep_days=keep_days, cache_days=cache_days)
        freed = clear(opened, found) if delete else 0
    what = f"{counted(len(found.runs), 'run')} and {found.replies:,} cached replies"
    size = f" ({freed / 2**20:,.1f} MiB)" if freed else ""
    lines = [f"removed {what}{size}" if delete else f"would remove {what}: --delete does", *found.runs]
    say(
        lines, {"runs": found.runs, "cached_replies": found.replies, "deleted": delete, "freed": freed}, as_json=as_json
    )
