"""`crucible models promote`: promote the candidate of a run in the model registry."""

from __future__ import annotations

import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.runs import rules_note
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.registry import LogEntry
from pytest_crucible.runs.run_store import existing_store

if TYPE_CHECKING:
    from pytest_crucible.records.registry import Version
    from pytest_crucible.store.runs import RunStore

STATES = ("candidate", "staged", "production")


@click.command("promote", short_help="Promote a run's candidate, with the run as proof.")
@click.argument("run")
@click.option("--to", "state", required=True, type=click.Choice(STATES), help="State of the candidate's version.")
@click.option("--model", default="", metavar="NAME", help="Which model, where the candidate is of several.")
@click.option("--force", is_flag=True, help="Promote although a rule or a verdict is not met; this is recorded.")
@click.option("--why", default="", metavar="TEXT", help="The reason, which is kept; needed for --force.")
@store_option
@json_option
def command(run: str, state: str, model: str, force: bool, why: str, store: str, as_json: bool) -> None:
    """Promote the candidate of RUN, where the run is the proof: its verdicts are decided again from the stored answers."""
    with existing_store(store) as opened:
        full = opened.find_run(run)
        _promote(opened, store, full, state, model=model, force=force, why=why, as_json=as_json)


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
    from pytest_crucible.registry.promote import Promotion, promote_run
    from pytest_crucible.registry.settings import read_registry_settings
    from pytest_crucible.registry.suite_collection import collect_suite

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
    print_result([*map(entry_line, entries), *forced, *rules_note(store, run)], entries, as_json=as_json)


def _find_expiry(version: Version, store: RunStore) -> datetime.datetime | None:
    """Return when a service will delete the weights of a version. Weights on this machine stay."""
    from pytest_crucible.adapters.kinds import kind_of

    kind = kind_of(version.adapter)
    if not kind.expiry:
        return None
    # Imported here: it imports pytest, whose options name the service.
    from pytest_crucible.session.pytest_project import with_adapters

    return with_adapters(Path.cwd(), store, lambda context: (kind.find_expiry(version.adapter, context),))[0]
