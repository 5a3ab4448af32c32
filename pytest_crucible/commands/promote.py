"""`crucible promote`: make a run the baseline that later ones are compared with."""

from __future__ import annotations

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.runs import verdict_counts
from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.store.history import add_tag, check_tag, list_runs


@click.command("promote", short_help="Make a run the baseline that later ones are compared with.")
@click.argument("run")
@click.option("--as", "name", required=True, metavar="NAME", help="Name for --compare=tag:NAME.")
@click.option("--force", is_flag=True, help="Promote although not all verdicts are met; this is recorded.")
@store_option
@json_option
def command(run: str, name: str, force: bool, store: str, as_json: bool) -> None:
    """Make RUN the baseline NAME: --compare=tag:NAME then compares with its answers.

    A run that is not finished, or has a verdict that is not met, is refused without --force.
    """
    check_tag(name)
    with existing_store(store) as opened:
        full = opened.find_run(run)
        (stored,) = (summary for summary in list_runs(opened) if summary.id == full)
        # Later runs are measured against a baseline: a broken one would hide their regressions.
        if not (stored.all_met or force):
            raise SpecError(f"run {full} cannot be a baseline, {_why(stored)}: --force promotes it anyway")
        add_tag(opened, full, name, at=utc_now(), promoted=True, forced=not stored.all_met)
    forced = "" if stored.all_met else f", by force ({_why(stored)})"
    document = {"run": full, "tag": name, "forced": not stored.all_met}
    print_result([f"run {full} is now {name}{forced}: compare with --compare=tag:{name}"], document, as_json=as_json)


def _why(run: RunSummary) -> str:
    if run.status != "finished":
        return f"it is {run.status}, not finished"
    return f"its verdicts are {verdict_counts(run)}" if run.verdicts else "it has no verdicts"
