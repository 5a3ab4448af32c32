"""`crucible gc`: remove old runs and cached replies from the run store."""

from __future__ import annotations

import datetime

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records.number_format import quantity
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.prune import clear, find_prunable


@click.command("gc", short_help="Remove old runs and cached replies from the run store.")
@click.option("--keep-runs", type=click.IntRange(min=0), default=20, metavar="N", help="Keep the N newest runs.")
@click.option(
    "--keep-days", type=click.FloatRange(min=0), default=90.0, metavar="D", help="Also keep runs younger than D days."
)
@click.option(
    "--cache-days",
    type=click.FloatRange(min=0),
    metavar="D",
    show_default="keep all",
    help="Keep cached replies younger than D days.",
)
@click.option("--delete", is_flag=True, help="Delete. Without it, only list what would be deleted.")
@store_option
@json_option
def command(
    keep_runs: int, keep_days: float, cache_days: float | None, delete: bool, store: str, as_json: bool
) -> None:
    """Remove old runs, with all their answers, and old cached replies.

    Runs with a tag, promoted runs, those that the registry's log names as proof, and running ones are kept. Without --delete
    nothing is removed, only listed. A dataset is removed with the last run that used it.
    """
    # Taken once, so that all runs and replies are compared with one moment.
    at = datetime.datetime.now(datetime.UTC)
    with existing_store(store) as opened:
        prunable = find_prunable(opened, at=at, keep_runs=keep_runs, keep_days=keep_days, cache_days=cache_days)
        freed = clear(opened, prunable) if delete else 0
    what = f"{quantity(len(prunable.runs), 'run')} and {prunable.replies:,} cached replies"
    size = f" ({freed / 2**20:,.1f} MiB)" if freed else ""
    lines = [f"removed {what}{size}" if delete else f"would remove {what}: --delete does", *prunable.runs]
    print_result(
        lines,
        {"runs": prunable.runs, "cached_replies": prunable.replies, "deleted": delete, "freed": freed},
        as_json=as_json,
    )
