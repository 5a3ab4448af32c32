"""`crucible runs`: the runs in the run store; `runs tag` makes one a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.results import RULES_VERSION, rules_of
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.store.history import add_tag, check_tag, list_runs
from pytest_crucible.store.runs import RunStore


@click.command("list", short_help="The runs in the store, newest first.")
@store_option
@click.option("--tag", default="", metavar="NAME", help="Only runs with this tag.")
@click.option("--suite", default="", metavar="TEXT", help="Only runs with an experiment whose name contains this text.")
@click.option("--adapter", default="", metavar="NAME", help="Only runs that queried this adapter.")
@click.option("--limit", type=click.IntRange(min=0), default=20, metavar="N", help="Show at most N runs (0: all).")
@json_option
def list_all(store: str, tag: str, suite: str, adapter: str, limit: int, as_json: bool) -> None:
    """List the runs in the store, newest first: start, commit, arms, experiments, verdicts and tags."""
    with existing_store(store) as opened:
        listed = list_runs(opened, tag=tag, suite=suite, adapter=adapter, limit=limit)
    print_result(_lines(listed), listed, as_json=as_json)


@click.command("tag", short_help="Make a run the baseline that --compare=tag:NAME finds.")
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
        _make_baseline(opened, opened.find_run(run), name, force=force, why=why, as_json=as_json)


def _lines(listed: Sequence[RunSummary]) -> Iterator[str]:
    if not listed:
        yield "no run matches"
        return
    heads = ("run", "started", "commit", "arms", "experiments", "verdicts", "tags")
    yield from aligned_lines([heads, *map(_row, listed)])


def _row(run: RunSummary) -> tuple[str, ...]:
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
    counts = [f"{n} {state}" for state, n in sorted(run.verdicts.items())]
    ended = [] if run.status == "finished" else [run.status]
    return ", ".join([*counts, *ended]) or "none"


def _make_baseline(store: RunStore, run: str, name: str, *, force: bool, why: str, as_json: bool) -> None:
    check_tag(name)
    (listed,) = (summary for summary in list_runs(store) if summary.id == run)
    note = rules_note(store, run)
    stored = _decide_again(store, listed) if note else listed
    # Later runs are measured against a baseline: a broken one would hide their regressions.
    if not (stored.all_met or force):
        raise SpecError(f"run {run} cannot be a baseline, {_why(stored)}: --force tags it anyway")
    add_tag(store, run, name, at=utc_now(), promoted=True, forced=not stored.all_met, why=why)
    forced = "" if stored.all_met else f", by force ({_why(stored)})"
    document = {"run": run, "tag": name, "forced": not stored.all_met, "why": why}
    reason = f" because {why!r}" if why else ""
    line = f"run {run} is now {name}{forced}{reason}: compare with --compare=tag:{name}"
    print_result([line, *note], document, as_json=as_json)


def rules_note(store: RunStore, run: str) -> list[str]:
    """Return a line if another version of the rules decided the run's verdicts, which are then decided again."""
    rules = rules_of(store.run(run)["environment"])
    if rules == RULES_VERSION:
        return []
    return [
        f"its verdicts are decided again by version {RULES_VERSION} of the rules; the session decided by version {rules}"
    ]


def _decide_again(store: RunStore, listed: RunSummary) -> RunSummary:
    # Imported here: a baseline of this build's rules needs no statistics.
    from pytest_crucible.runs.load_run import load_run

    again = load_run(store, listed.id, decide_again=True)
    return replace(listed, verdicts=Counter(verdict.state for verdict in again.verdicts))


def _why(run: RunSummary) -> str:
    if run.status != "finished":
        return f"it is {run.status}, not finished"
    return f"its verdicts are {verdict_counts(run)}" if run.verdicts else "it has no verdicts"
