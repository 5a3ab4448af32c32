"""Commands on the run store: `crucible runs list` and `tag`, `doctor` and `gc`."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.adapters.context import files_folder
from pytest_crucible.commands.options import WithPages, json_option, print_result, store_option
from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.runs.reproduction import ReproductionCheck, reproduction_checks
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.history import add_tag, check_tag, list_runs
from pytest_crucible.store.prune import Leftovers, clear, find_prunable, remove_leftovers
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import FORMAT
from pytest_crucible.store.sent_calls import sent_text


@click.command("list")
@store_option
@click.option("--tag", default="", metavar="NAME", help="Only runs with this tag.")
@click.option("--suite", default="", metavar="TEXT", help="Only runs with an experiment whose name contains this text.")
@click.option("--adapter", default="", metavar="NAME", help="Only runs that queried this adapter.")
@click.option("--limit", type=click.IntRange(min=0), default=20, metavar="N", help="Show at most N runs (0: all).")
@json_option
def list_all(store: str, tag: str, suite: str, adapter: str, limit: int, as_json: bool) -> None:
    """List the runs in the store, newest first: start, commit, arms, experiments, verdicts and tags."""
    with existing_store(store, reader="crucible runs") as opened:
        listed = list_runs(opened, tag=tag, suite=suite, adapter=adapter, limit=limit)
    print_result(_lines(listed), listed, as_json=as_json)


@click.command("tag")
@click.argument("run")
@click.argument("name")
@click.option("--force", is_flag=True, help="Tag it although a verdict is not met; this is recorded.")
@click.option("--why", default="", metavar="TEXT", help="The reason, which is kept.")
@store_option
@json_option
def tag(run: str, name: str, force: bool, why: str, store: str, as_json: bool) -> None:
    """Make RUN the baseline NAME, which --compare=tag:NAME compares with.

    A run that is not finished, or has a verdict that is not met, is refused without --force.
    """
    with existing_store(store) as opened:
        run = opened.find_run(run)
        check_tag(name)
        (summary,) = (summary for summary in list_runs(opened) if summary.id == run)
        note = rules_note(opened, run)
        stored = _decide_again(opened, summary) if note else summary
        # Later runs are measured against a baseline: a broken one would hide their regressions.
        if not (stored.all_met or force):
            raise SpecError(f"run {run} cannot be a baseline, {_why(stored)}: --force tags it anyway")
        add_tag(opened, run, name, at=utc_now(), promoted=True, forced=not stored.all_met, why=why)
    forced = "" if stored.all_met else f", by force ({_why(stored)})"
    document = {"run": run, "tag": name, "forced": not stored.all_met, "why": why}
    reason = f" because {why!r}" if why else ""
    line = f"run {run} is now {name}{forced}{reason}: compare with --compare=tag:{name}"
    print_result([line, *note], document, as_json=as_json)


def _lines(listed: Sequence[RunSummary]) -> Iterator[str]:
    if not listed:
        yield "no run matches"
        return
    yield from aligned_lines([RUN_HEADS, *map(run_cells, listed)])


RUN_HEADS = ("run", "started", "commit", "arms", "experiments", "verdicts", "tags")


def run_cells(run: RunSummary) -> tuple[str, ...]:
    """Return what a list of runs has in its columns, which are those of `RUN_HEADS`."""
    first, *rest = run.experiments or ("",)
    more = f" and {len(rest)} more" if rest else ""
    return (
        run.id,
        run.started[:19].replace("T", " "),
        (run.commit or "-")[:8] + ("+" if run.dirty else ""),
        " vs ".join(run.arms),
        first.partition("::")[2] + more,
        verdict_counts(run),
        " ".join(f"{tag} ({run.reasons[tag]})" if tag in run.reasons else tag for tag in run.tags),
    )


def verdict_counts(run: RunSummary) -> str:
    """Return `2 met, 1 missed`, and the status of a run that is not finished."""
    counts = ["explanation"] if run.explains else [f"{n} {state}" for state, n in sorted(run.verdicts.items())]
    ended = [] if run.status == "finished" else [run.status]
    return ", ".join([*counts, *ended]) or "none"


def rules_note(store: RunStore, run: str) -> list[str]:
    """Return a line if another version of the rules decided the run's verdicts, which are then decided again."""
    rules = rules_of(store.run(run)["environment"])
    note = f"its verdicts are decided again by version {RULES_VERSION} of the rules; the session decided by version {rules}"
    return [] if rules == RULES_VERSION else [note]


def _decide_again(store: RunStore, listed: RunSummary) -> RunSummary:
    # Imported here: a baseline of this build's rules needs no statistics.
    from pytest_crucible.runs.load_run import load_run

    again = load_run(store, listed.id, decide_again=True)
    return replace(listed, verdicts=Counter(verdict.state for verdict in again.verdicts))


def _why(run: RunSummary) -> str:
    if run.status != "finished":
        return f"it is {run.status}, not finished"
    return f"its verdicts are {verdict_counts(run)}" if run.verdicts else "it has no verdicts"


@click.command("doctor", cls=WithPages)
@click.argument("run", default="")
@store_option
@json_option
def doctor(run: str, store: str, as_json: bool) -> int:
    """Check the run store and adapters; with RUN, whether that run can be reproduced here, and what differs.

    Tests are collected as that run collected them, and no model is called. The log directory of a tinker-cookbook training in the
    place of RUN lists the optimiser steps of its checkpoints. Exits 1 when something is wrong or differs.
    """
    if run and Path(run).is_dir():
        checks = list(_check_folder(Path(run)))
    else:
        checks = list(_check_run(store, run) if run else _check_place(store))
    print_result(map(_line, checks), checks, as_json=as_json)
    return int(any(not check.matches for check in checks))


def _check_run(where: str, named: str) -> Iterator[ReproductionCheck]:
    # Imported here: it imports pytest, which the other commands do without.
    from pytest_crucible.session.pytest_project import collect_plans

    with existing_store(where, reader="crucible doctor") as opened:
        run = opened.find_run(named)
        experiments = opened.experiments(run)
        facts, sent = opened.run(run), {plan.nodeid: sent_text(opened, key, plan) for key, plan, _ in experiments}
        of_features = program_plugins().hook.pytest_crucible_check_run(run=load_run(opened, run))
    texts = {nodeid: text for nodeid, text in sent.items() if text}
    yield from reproduction_checks(facts, [plan for _, plan, _ in experiments], Path.cwd(), collect_plans, texts)
    yield from (check for checks in reversed(of_features) for check in checks)


def _check_folder(folder: Path) -> Iterator[ReproductionCheck]:
    checks = [check for each in program_plugins().hook.pytest_crucible_check_folder(folder=folder) for check in each]
    if not checks:
        raise SpecError(
            f"{folder} is a folder without checkpoints.jsonl: name a run, or the log_path of a tinker-cookbook training"
        )
    yield from checks


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
    checks = program_plugins().hook.pytest_crucible_check_store(store=store, location=where)
    return [check for each in reversed(checks) for check in each]


def _line(check: ReproductionCheck) -> str:
    return f"{'ok     ' if check.matches else 'differs'}  {check.subject}: {check.detail}"


@click.command("gc")
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
