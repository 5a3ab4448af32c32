"""`crucible gc`: remove old runs, cached replies and unfinished trainings."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import click

from pytest_crucible.adapters.context import ADAPTERS, files_folder
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.prune import clear, find_prunable
from pytest_crucible.training.unfinished import UnfinishedTraining, find_unfinished, remove_unfinished


@click.command("gc", short_help="Remove old runs, cached replies and unfinished trainings.")
@click.option("--keep-runs", type=click.IntRange(min=0), default=20, metavar="N", help="Keep the N newest runs.")
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=90.0,
    metavar="D",
    help="Also keep runs, and states of unfinished trainings, younger than D days.",
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
    """Remove old runs, with all their answers, old cached replies, and trainings that were interrupted and not continued.

    Runs with a tag, promoted runs, those that the registry's log names as proof, and running ones are kept. Without --delete
    nothing is removed, only listed. A dataset is removed with the last run that used it. A training that runs is kept.
    """
    # Taken once, so that all runs and replies are compared with one moment.
    at = datetime.datetime.now(datetime.UTC)
    with existing_store(store) as opened:
        prunable = find_prunable(opened, at=at, keep_runs=keep_runs, keep_days=keep_days, cache_days=cache_days)
        freed = clear(opened, prunable) if delete else 0
    oldest = (at - datetime.timedelta(days=keep_days)).timestamp()
    unfinished = find_unfinished(files_folder(Path(), store) / ADAPTERS, oldest)
    if delete:
        freed += remove_unfinished(unfinished)
    what = f"{quantity(len(prunable.runs), 'run')} and {prunable.replies:,} cached replies"
    size = f" ({freed / 2**20:,.1f} MiB)" if freed else ""
    lines = [f"removed {what}{size}" if delete else f"would remove {what}: --delete does", *prunable.runs]
    print_result(
        [*lines, *_list_unfinished(unfinished, deleted=delete)],
        {
            "runs": prunable.runs,
            "cached_replies": prunable.replies,
            "unfinished_trainings": [{"path": str(each.path), "bytes": each.size} for each in unfinished],
            "deleted": delete,
            "freed": freed,
        },
        as_json=as_json,
    )


def _list_unfinished(trainings: Sequence[UnfinishedTraining], *, deleted: bool) -> list[str]:
    if not trainings:
        return []
    total = sum(training.size for training in trainings)
    head = f"{'removed' if deleted else 'would remove'} {quantity(len(trainings), 'unfinished training')} ({total:,} bytes)"
    return [head, *(f"{training.path}  {training.size:,} bytes" for training in trainings)]
