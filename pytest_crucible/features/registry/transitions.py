"""Changes of the states of versions: promotion, rollback, retirement, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_crucible.features.registry.records import (
    Action,
    GateEntry,
    LogEntry,
    VersionState,
    VersionStatus,
)
from pytest_crucible.features.registry.store import (
    PRODUCTION,
    STAGED,
    RegistryState,
    StoredRegistry,
    append_entries,
    load_registry,
)
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.store.runs import RunStore

ORDER: tuple[VersionState, ...] = ("draft", "candidate", STAGED, PRODUCTION)
"""States that a promotion leads to, the lowest first."""
EXCLUSIVE = (STAGED, PRODUCTION)
"""States that one version of a model has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The facts of a transition that the log records besides the states."""

    at: str
    by: str
    why: str = ""
    run: str | None = None
    forced: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)


Entry = TypeVar("Entry", LogEntry, GateEntry, LogEntry | GateEntry)


def change_state(store: RunStore, decide: Callable[[StoredRegistry], Sequence[Entry]]) -> tuple[Entry, ...]:
    """Append the entries that `decide` returns for the registry as it is, in one transaction. Raises what `decide` raises.

    If another transition came first, `decide` is called again with its result.
    """
    while True:
        registry = load_registry(store)
        entries = decide(registry)
        if not entries or append_entries(store, registry, entries):
            return tuple(entries)


def promotion(state: RegistryState, status: VersionStatus, to: VersionState, note: Note) -> tuple[LogEntry, ...]:
    """Return the entries of a promotion: the version that was in the state before is retired.

    Raises SpecError for a version that is there already, or beyond.
    """
    if status.state in ORDER and ORDER.index(status.state) >= ORDER.index(to):
        raise SpecError(
            f"{status.name} is {_describe(status)} already: `crucible models list {status.model}` shows why"
        )
    entries = [_entry("promote", status, to, note)]
    former = state.holder(status.model, to) if to in EXCLUSIVE else None
    if former is not None:
        entries.insert(0, _entry("promote", former, "retired", Note(at=note.at, by=note.by, run=note.run)))
    return tuple(entries)


def rollback(state: RegistryState, model: str, note: Note) -> tuple[LogEntry, ...]:
    """Return the entries that restore the production version before this one. Raises SpecError without one."""
    earlier, holder = state.earlier_production(model), state.holder(model, PRODUCTION)
    if earlier is None:
        raise SpecError(f"{model} has no earlier production version to restore")
    entries = [_entry("roll back", state.statuses[model, earlier], PRODUCTION, note)]
    if holder is not None:
        entries.insert(0, _entry("roll back", holder, "rolled-back", note))
    return tuple(entries)


def retirement(status: VersionStatus, note: Note) -> tuple[LogEntry, ...]:
    """Return the entry that withdraws a version. Raises SpecError for one that is withdrawn already."""
    # One that a later promotion replaced may still be restored by a rollback, until it is withdrawn by hand.
    if status.state in ("retired", "rolled-back") and status.entry.action != "promote":
        raise SpecError(
            f"{status.name} is {status.state} already: `crucible models list {status.model} --log` shows why"
        )
    return (_entry("retire", status, "retired", note),)


def check_not_withdrawn(status: VersionStatus, run: str, started: str) -> None:
    """Raise SpecError if a version was withdrawn after its proof began: the proof does not have the reason for it."""
    withdrawn = status.state == "rolled-back" or status.entry.action == "retire"
    if withdrawn and started <= status.entry.at:
        raise SpecError(
            f"{status.name} was {_describe(status)} on {status.entry.at[:10]}, after run {run} began: run it again, "
            "then promote that run"
        )


def _entry(action: Action, status: VersionStatus, to: VersionState, note: Note) -> LogEntry:
    return LogEntry(
        at=note.at,
        action=action,
        model=status.model,
        number=status.number,
        state=to,
        former=status.state,
        by=note.by,
        run=note.run,
        evidence=note.evidence,
        forced=note.forced,
        why=note.why,
    )


def _describe(status: VersionStatus) -> str:
    names: dict[VersionState, str] = {
        PRODUCTION: "in production",
        "rolled-back": "rolled back",
        "candidate": "a candidate",
    }
    return names.get(status.state, status.state)


def known_model(state: RegistryState, model: str) -> None:
    """Raise SpecError, with the nearest name, for a model that is not registered."""
    if model not in state.models:
        hint = suggest(model, state.models, otherwise="run crucible models register ADAPTER --model NAME")
        raise SpecError(f"model {model!r} is not registered: {hint}")
