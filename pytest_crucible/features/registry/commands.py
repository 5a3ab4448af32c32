"""Versions of models: `crucible models register`, `promote`, `rollback`, `retire` and `gate`."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import click

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.runs import rules_note
from pytest_crucible.features.registry.listing import (
    entry_line,
    gate_line,
    log_note,
    own_folder,
    project_alpha,
    user_name,
    utc_time,
    why_option,
)
from pytest_crucible.features.registry.model_gate import (
    RULES,
    FrozenGate,
    GateRequest,
    freeze_gate,
    gate_changes,
    rules_of,
    short_value,
)
from pytest_crucible.features.registry.promote import Promotion, collect_suite, promote_run
from pytest_crucible.features.registry.records import GateChange, GateEntry, LogEntry, Version
from pytest_crucible.features.registry.registration import check_model, check_weights, register_version
from pytest_crucible.features.registry.rules import (
    change_state,
    known_model,
    read_registry_settings,
    retirement,
    rollback,
)
from pytest_crucible.features.registry.store import StoredRegistry, load_registry, load_version
from pytest_crucible.features.registry.version_names import resolve_version
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.runs.run_store import existing_store, project_root
from pytest_crucible.store.runs import RunStore


@click.command("register")
@click.argument("adapter")
@click.option("--model", required=True, metavar="NAME", help="The model that it is a version of.")
@store_option
@json_option
def register_adapter(adapter: str, model: str, store: str, as_json: bool) -> None:
    """Register ADAPTER, a name of the configuration or a URI, as a draft of a model: NAME@1, NAME@2 and so on.

    Its identity, table and lineage are frozen, and local weights are copied. Registering it again gives the same number.
    """
    # Imported here: it imports pytest, whose configuration and conftest.py open the adapters.
    from pytest_crucible.features.registry.registration import freeze_adapter
    from pytest_crucible.session.pytest_project import with_adapters

    check_model(model)
    opened = RunStore(store)

    def register(context: AdapterContext) -> tuple[Version, bool]:
        frozen = freeze_adapter(adapter, context)
        at = utc_time().isoformat(timespec="milliseconds")
        folder = own_folder(store)
        return register_version(opened, model, frozen, folder, at=at, by=user_name(), hide=context.hide)

    try:
        version, is_new = with_adapters(Path.cwd(), opened, register)
    finally:
        opened.close()
    line = f"{adapter} is {version.name}" + (", a draft" if is_new else ", as before")
    document = {"version": version.name, "new": is_new, "identity": version.identity, "steps": version.steps}
    print_result([line], document, as_json=as_json)


STATES = ("candidate", "staged", "production")


@click.command("promote")
@click.argument("run")
@click.option("--to", "state", required=True, type=click.Choice(STATES), help="State of the candidate's version.")
@click.option("--model", default="", metavar="NAME", help="Which model, where the candidate is of several.")
@click.option("--force", is_flag=True, help="Promote although a rule or a verdict is not met; this is recorded.")
@click.option("--why", default="", metavar="TEXT", help="The reason, which is kept; needed for --force.")
@store_option
@json_option
def promote_candidate(run: str, state: str, model: str, force: bool, why: str, store: str, as_json: bool) -> None:
    """Promote the candidate of RUN, where the run is the proof: its verdicts are decided again from the stored answers."""
    with existing_store(store) as opened:
        run = opened.find_run(run)
        if force and not why:
            raise SpecError("--force needs a reason for the log: add --why TEXT")
        request = Promotion(
            run=run,
            to=state,  # type: ignore[arg-type]  # one of STATES
            settings=read_registry_settings(project_root()),
            alpha=project_alpha(),
            folder=own_folder(store),
            now=utc_time(),
            by=user_name(),
            why=why,
            force=force,
            model=model,
            expiry=lambda version: _find_expiry(version, opened),
            collect=partial(collect_suite, root=project_root()),
        )
        entries = promote_run(opened, request)
        changes = (entry for entry in entries if isinstance(entry, LogEntry))
        forced = [f"  by force: {sentence}" for entry in changes for sentence in entry.forced]
        print_result([*map(entry_line, entries), *forced, *rules_note(opened, run)], entries, as_json=as_json)


def _find_expiry(version: Version, store: RunStore) -> datetime.datetime | None:
    """Return when a service will delete the weights of a version. Weights on this machine stay."""
    from pytest_crucible.adapters.kinds import kind_of

    kind = kind_of(version.adapter)
    find_expiry = kind.find_expiry
    if find_expiry is None:
        return None
    # Imported here: it imports pytest, whose options name the service.
    from pytest_crucible.session.pytest_project import with_adapters

    return with_adapters(Path.cwd(), store, lambda context: (find_expiry(version.adapter, context),))[0]


@click.command("rollback")
@click.argument("model")
@why_option
@store_option
@json_option
def roll_back(model: str, why: str, store: str, as_json: bool) -> None:
    """Restore the production version of MODEL before this one, which is then rolled back.

    What was rolled back or retired is not restored. The version needs a new run to be promoted again.
    """
    with existing_store(store) as opened:

        def decide(registry: StoredRegistry) -> tuple[LogEntry, ...]:
            known_model(registry.state, model)
            entries = rollback(registry.state, model, log_note(why))
            restored = load_version(opened, model, entries[-1].number)
            if restored is not None:
                check_weights(restored, own_folder(store))
            return entries

        entries = change_state(opened, decide)
    print_result(map(entry_line, entries), entries, as_json=as_json)


@click.command("retire")
@click.argument("version")
@why_option
@store_option
@json_option
def retire(version: str, why: str, store: str, as_json: bool) -> None:
    """Withdraw VERSION, such as claims@2: it stays an adapter, and a rollback does not restore it."""
    with existing_store(store) as opened:

        def decide(registry: StoredRegistry) -> tuple[LogEntry, ...]:
            key = resolve_version(version, registry.state, opened.location)
            return retirement(registry.state.statuses[key], log_note(why))

        entries = change_state(opened, decide)
    print_result(map(entry_line, entries), entries, as_json=as_json)


@click.command("freeze")
@click.argument("model")
@click.argument("suite", nargs=-1)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME", help="Pass this variable to the suite; may be repeated."
)
@click.option("--why", default="", metavar="TEXT", help="The reason, for the log; needed to change a gate.")
@store_option
@json_option
def freeze(model: str, suite: tuple[str, ...], variables: tuple[str, ...], why: str, store: str, as_json: bool) -> None:
    """Freeze SUITE as the gate of MODEL: files, folders or tests, as pytest takes them.

    Without SUITE it is that of the present gate, else everything that pytest collects without arguments. Nothing is sent.
    """
    check_model(model)
    option = next((word for word in suite if word.startswith("-")), None)
    if option is not None:
        raise SpecError(f"{option!r} is an option of pytest: name files, folders or tests only")
    root = project_root()
    request = GateRequest(
        model=model,
        suite=suite,
        variables=variables,
        collect=partial(collect_suite, root=root),
        rules=rules_of(read_registry_settings(root)),
        at=utc_time().isoformat(timespec="milliseconds"),
        by=user_name(),
        why=why,
    )
    with contextlib.closing(RunStore(store)) as opened:
        frozen = freeze_gate(opened, request)
    print_result(_frozen_lines(frozen), frozen, as_json=as_json)


@click.command("show")
@click.argument("model")
@store_option
@json_option
def show(model: str, store: str, as_json: bool) -> None:
    """Show the gate of MODEL, and how it has changed: the old and the new gate side by side, with the reason."""
    with existing_store(store, reader="crucible models gate show") as opened:
        gates = load_registry(opened).gates(model)
    if not gates:
        raise SpecError(f"{model} has no gate: freeze one with `crucible models gate freeze {model} SUITE`")
    print_result(_shown_lines(gates), gates, as_json=as_json)


def _frozen_lines(frozen: FrozenGate) -> Iterator[str]:
    if not frozen.is_new:
        yield f"{gate_line(frozen.entry)}, as before"
        return
    yield gate_line(frozen.entry)
    yield from _change_lines(frozen.entry, frozen.changes) if frozen.changes else _demand_lines(frozen.entry)


def _shown_lines(gates: Sequence[GateEntry]) -> Iterator[str]:
    yield gate_line(gates[-1])
    yield from _demand_lines(gates[-1])
    for old, new in pairwise(gates):
        yield ""
        yield f"{new.name}, {new.at[:10]}, by {new.by}: {new.why}"
        yield from _change_lines(new, gate_changes(old.gate, new.gate))


def _demand_lines(entry: GateEntry) -> Iterator[str]:
    gate = entry.gate
    # A leading blank marks the demands of an experiment.
    rows = [(name, short_value(value)) for name, value in sorted(gate.settings.items())]
    rows += [(f"{RULES} {name}", value) for name, value in sorted(gate.rules.items())]
    for nodeid, demands in sorted(gate.experiments.items()):
        rows += [(nodeid, ""), *((f"  {name}", short_value(value)) for name, value in sorted(demands.items()))]
    yield from aligned_lines(rows)


def _change_lines(entry: GateEntry, changes: Sequence[GateChange]) -> Iterator[str]:
    heads = ("demand", f"gate {entry.number - 1}", f"gate {entry.number}")
    rows = [(change.text, short_value(change.old), short_value(change.new)) for change in changes]
    yield from aligned_lines([heads, *rows])
