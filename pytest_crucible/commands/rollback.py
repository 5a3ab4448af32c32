"""`crucible rollback`: restore the production version before this one."""

from __future__ import annotations

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.registry_options import entry_line, registry_folder, user_name, utc_time, why_option
from pytest_crucible.records.registry import LogEntry
from pytest_crucible.registry.versions import Note, change_state, check_weights, known_model, rollback
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.versions import StoredRegistry, load_version


@click.command("rollback", short_help="Restore the production version before this one.")
@click.argument("model")
@why_option
@store_option
@json_option
def command(model: str, why: str, store: str, as_json: bool) -> None:
    """Restore the production version of MODEL before this one, which is then rolled back.

    What was rolled back or retired is not restored. The version needs a new run to be promoted again.
    """
    with existing_store(store) as opened:

        def decide(registry: StoredRegistry) -> tuple[LogEntry, ...]:
            known_model(registry.state, model)
            note = Note(at=utc_time().isoformat(timespec="milliseconds"), by=user_name(), why=why)
            entries = rollback(registry.state, model, note)
            restored = load_version(opened, model, entries[-1].number)
            if restored is not None:
                check_weights(restored, registry_folder(store))
            return entries

        entries = change_state(opened, decide)
    print_result(map(entry_line, entries), entries, as_json=as_json)
