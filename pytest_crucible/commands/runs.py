"""`crucible runs`: the runs in the run store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records import RunSummary
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.history import list_runs


@click.command("runs", short_help="The runs in the store, newest first.")
@store_option
@click.option("--tag", default="", metavar="NAME", help="Only runs with this tag.")
@click.option("--suite", default="", metavar="TEXT", help="Only runs with an experiment whose name contains this text.")
@click.option("--adapter", default="", metavar="NAME", help="Only runs that queried this adapter.")
@click.option("--limit", type=click.IntRange(min=0), default=20, metavar="N", help="Show at most N runs (0: all).")
@json_option
def command(store: str, tag: str, suite: str, adapter: str, limit: int, as_json: bool) -> None:
    """List the runs in the store, newest first: start, commit, arms, experiments, verdicts and tags."""
    with existing_store(store) as opened:
        listed = list_runs(opened, tag=tag, suite=suite, adapter=adapter, limit=limit)
    print_result(_lines(listed), listed, as_json=as_json)


def _lines(listed: Sequence[RunSummary]) -> Iterator[str]:
    # Imported here: `verdict_counts` is used by commands that print no table.
    from tabulate import tabulate

    if not listed:
        yield "no run matches"
        return
    heads = ("run", "started", "commit", "arms", "experiments", "verdicts", "tags")
    yield from tabulate([heads, *map(_row, listed)], tablefmt="plain", disable_numparse=True).splitlines()


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
