"""`crucible retire`: withdraw a version."""

from __future__ import annotations

import click

from pytest_crucible.adapters.versions import resolve_version
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.registry_options import entry_line, user_name, utc_time, why_option
from pytest_crucible.records.registry import LogEntry
from pytest_crucible.registry.versions import Note, change_state, retirement
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.versions import StoredRegistry


@click.command("retire", short_help="Withdraw a version.")
@click.argument("version")
@why_option
@store_option
@json_option
def command(version: str, why: str, store: str, as_json: bool) -> None:
    """Withdraw VERSION, such as claims@2: it stays an adapter, and a rollback does not restore it."""
    with existing_store(store) as opened:

        def decide(registry: StoredRegistry) -> tuple[LogEntry, ...]:
            key = resolve_version(version, registry.state, opened.location)
            note = Note(at=utc_time().isoformat(timespec="milliseconds"), by=user_name(), why=why)
            return retirement(registry.state.statuses[key], note)

        entries = change_state(opened, decide)
    print_result(map(entry_line, entries), entries, as_json=as_json)
