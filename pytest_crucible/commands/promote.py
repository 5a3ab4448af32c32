"""`crucible promote`: make a run a baseline, or promote its candidate in the model registry."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.runs import verdict_counts
from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.registry import LogEntry
from pytest_crucible.records.rules import RULES_VERSION, rules_of
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.store.history import add_tag, check_tag, list_runs

if TYPE_CHECKING:
    from pytest_crucible.records.registry import Version
    from pytest_crucible.store.runs import RunStore

STATES = ("candidate", "staged", "production")


@click.command("promote", short_help="Promote a run's candidate with the run as proof, or make the run a baseline.")
@click.argument("run")
@click.option("--to", "state", type=click.Choice(STATES), help="State of the candidate's registered version.")
@click.option("--as", "name", metavar="NAME", help="Name of a baseline, for --compare=tag:NAME.")
@click.option("--model", default="", metavar="NAME", help="With --to: which model, where the candidate is of several.")
@click.option("--force", is_flag=True, help="Promote although a rule or a verdict is not met; this is recorded.")
@click.option("--why", default="", metavar="TEXT", help="The reason, which is kept; needed for --to with --force.")
@store_option
@json_option
def command(
    run: str, state: str | None, name: str | None, model: str, force: bool, why: str, store: str, as_json: bool
) -> None:
    """Promote the candidate of RUN with --to, where the run is the proof; or make RUN a baseline with --as NAME.

    --to decides the verdicts again from the stored answers. --as NAME makes RUN the baseline that --compare=tag:NAME
    compares with; a run that is not finished, or has a verdict that is not met, is refused without --force.
    """
    if (state is None) == (name is None):
        raise SpecError("write --to candidate, --to staged or --to production; or --as NAME for a baseline")
    with existing_store(store) as opened:
        full = opened.find_run(run)
        if name is not None:
            _make_baseline(opened, full, name, force=force, why=why, as_json=as_json)
        elif state is not None:
            _promote(opened, store, full, state, model=model, force=force, why=why, as_json=as_json)


def _make_baseline(store: RunStore, run: str, name: str, *, force: bool, why: str, as_json: bool) -> None:
    check_tag(name)
    (listed,) = (summary for summary in list_runs(store) if summary.id == run)
    note = _rules_note(store, run)
    stored = _decide_again(store, listed) if note else listed
    # Later runs are measured against a baseline: a broken one would hide their regressions.
    if not (stored.all_met or force):
        raise SpecError(f"run {run} cannot be a baseline, {_why(stored)}: --force promotes it anyway")
    add_tag(store, run, name, at=utc_now(), promoted=True, forced=not stored.all_met, why=why)
    forced = "" if stored.all_met else f", by force ({_why(stored)})"
    document = {"run": run, "tag": name, "forced": not stored.all_met, "why": why}
    reason = f" because {why!r}" if why else ""
    line = f"run {run} is now {name}{forced}{reason}: compare with --compare=tag:{name}"
    print_result([line, *note], document, as_json=as_json)


def _rules_note(store: RunStore, run: str) -> list[str]:
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


def _promote(
    store: RunStore, where: str, run: str, state: str, *, model: str, force: bool, why: str, as_json: bool
) -> None:
    # Imported here: a baseline needs no statistics.
    from pytest_crucible.commands.registry_options import (
        entry_line,
        project_alpha,
        project_root,
        registry_folder,
        user_name,
        utc_time,
    )
    from pytest_crucible.registry.promote import Promotion, collect_suite, promote_run
    from pytest_crucible.registry.rules import read_registry_settings

    if force and not why:
        raise SpecError("--force needs a reason for the log: add --why TEXT")
    request = Promotion(
        run=run,
        to=state,  # type: ignore[arg-type]  # one of STATES
        settings=read_registry_settings(project_root()),
        alpha=project_alpha(),
        folder=registry_folder(where),
        now=utc_time(),
        by=user_name(),
        why=why,
        force=force,
        model=model,
        expiry=lambda version: _find_expiry(version, store),
        collect=partial(collect_suite, root=project_root()),
    )
    entries = promote_run(store, request)
    changes = (entry for entry in entries if isinstance(entry, LogEntry))
    forced = [f"  by force: {sentence}" for entry in changes for sentence in entry.forced]
    print_result([*map(entry_line, entries), *forced, *_rules_note(store, run)], entries, as_json=as_json)


def _find_expiry(version: Version, store: RunStore) -> datetime.datetime | None:
    """Return when a service will delete the weights of a version. Weights on this machine stay."""
    from pytest_crucible.adapters.kinds import kind_of

    kind = kind_of(version.adapter)
    if not kind.expiry:
        return None
    # Imported here: it imports pytest, whose options name the service.
    from pytest_crucible.session.pytest_project import with_adapters

    return with_adapters(Path.cwd(), store, lambda context: (kind.find_expiry(version.adapter, context),))[0]


def _why(run: RunSummary) -> str:
    if run.status != "finished":
        return f"it is {run.status}, not finished"
    return f"its verdicts are {verdict_counts(run)}" if run.verdicts else "it has no verdicts"
