"""`crucible doctor` and `crucible gc`: check this project, and remove what is old."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import click

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.adapters.context import files_folder
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.provenance import ReproductionCheck, reproduction_checks
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.prune import Leftovers, clear, find_prunable, remove_leftovers
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import FORMAT


@click.command("doctor", short_help="Check the run store and adapters, or whether RUN repeats.")
@click.argument("run", default="")
@store_option
@json_option
def doctor(run: str, store: str, as_json: bool) -> int:
    """Check the run store and adapters; with RUN, whether that run can be reproduced here, and what differs.

    Tests are collected as that run collected them, and no model is called. Exits 1 when something is wrong or differs.
    """
    checks = list(_check_run(store, run) if run else _check_place(store))
    print_result(map(_line, checks), checks, as_json=as_json)
    return int(any(not check.matches for check in checks))


def _check_run(where: str, named: str) -> Iterator[ReproductionCheck]:
    # Imported here: it imports pytest, which the other commands do without.
    from pytest_crucible.session.collect_plans import collect_plans

    with existing_store(where) as opened:
        run = opened.find_run(named)
        facts, plans = opened.run(run), [plan for _, plan, _ in opened.experiments(run)]
    yield from reproduction_checks(facts, plans, Path.cwd(), collect_plans)


def _check_place(where: str) -> Iterator[ReproductionCheck]:
    try:
        with existing_store(where) as opened:
            runs, further = list_runs(opened), _check_features(opened, where)
        cut = sum(run.status != "finished" for run in runs)
        yield ReproductionCheck(
            "run store", True, f"format {FORMAT}, {quantity(len(runs), 'run')}, {cut} of them cut short"
        )
        yield from further
    except CrucibleError as error:
        yield ReproductionCheck("run store", False, str(error))
    try:
        yield ReproductionCheck(
            "adapters", True, ", ".join(sorted(read_adapters(Path.cwd()))) or "none are configured here"
        )
    except CrucibleError as error:
        yield ReproductionCheck("adapters", False, str(error))


def _check_features(store: RunStore, where: str) -> list[ReproductionCheck]:
    """Return the checks of what features keep in the store."""
    checks = program_plugins().hook.pytest_crucible_check_store(store=store, location=where)
    return [check for each in reversed(checks) for check in each]


def _line(check: ReproductionCheck) -> str:
    return f"{'ok     ' if check.matches else 'differs'}  {check.subject}: {check.detail}"


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
def gc(keep_runs: int, keep_days: float, cache_days: float | None, delete: bool, store: str, as_json: bool) -> None:
    """Remove old runs, with all their answers, old cached replies, and trainings that were interrupted and not continued.

    Runs with a tag, promoted runs, those that the registry's log names as proof, and running ones are kept. Without --delete
    nothing is removed, only listed. A dataset is removed with the last run that used it. A training that runs is kept.
    """
    # Taken once, so that all runs and replies are compared with one moment.
    at = datetime.datetime.now(datetime.UTC)
    with existing_store(store) as opened:
        needed = {run for runs in program_plugins().hook.pytest_crucible_kept_runs(store=opened) for run in runs}
        prunable = find_prunable(
            opened, at=at, keep_runs=keep_runs, keep_days=keep_days, cache_days=cache_days, needed=needed
        )
        freed = clear(opened, prunable) if delete else 0
    oldest = (at - datetime.timedelta(days=keep_days)).timestamp()
    folder = files_folder(Path(), store)
    leftovers: list[Leftovers] = program_plugins().hook.pytest_crucible_leftovers(folder=folder, before=oldest)[::-1]
    if delete:
        freed += sum(remove_leftovers(each) for each in leftovers)
    what = f"{quantity(len(prunable.runs), 'run')} and {prunable.replies:,} cached replies"
    size = f" ({freed / 2**20:,.1f} MiB)" if freed else ""
    lines = [f"removed {what}{size}" if delete else f"would remove {what}: --delete does", *prunable.runs]
    print_result(
        [*lines, *(line for each in leftovers for line in _leftover_lines(each, deleted=delete))],
        {
            "runs": prunable.runs,
            "cached_replies": prunable.replies,
            **{
                each.key: [{"path": str(path), "bytes": size} for path, size in each.folders.items()]
                for each in leftovers
            },
            "deleted": delete,
            "freed": freed,
        },
        as_json=as_json,
    )


def _leftover_lines(leftovers: Leftovers, *, deleted: bool) -> list[str]:
    if not leftovers.folders:
        return []
    total = sum(leftovers.folders.values())
    what = quantity(len(leftovers.folders), leftovers.noun)
    head = f"{'removed' if deleted else 'would remove'} {what} ({total:,} bytes)"
    return [head, *(f"{path}  {size:,} bytes" for path, size in leftovers.folders.items())]
