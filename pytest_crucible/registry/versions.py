"""Versions of a model: registered once with a copy of their weights, changed in state, checked, and judged by their runs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_crucible.adapters.versions import changed_weights, weights_path
from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.records.files import hash_file
from pytest_crucible.records.model_gates import GateEntry
from pytest_crucible.records.process_secrets import require_no_key
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.registry import Action, LogEntry, StoredWeights, Version, VersionState, VersionStatus
from pytest_crucible.records.serialize import plain_or_repr
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store import schema
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.lost_values import lost_values
from pytest_crucible.store.registry_log import require_intact
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.version_states import PRODUCTION, STAGED, RegistryState
from pytest_crucible.store.versions import (
    StoredRegistry,
    add_version,
    append_entries,
    changed_versions,
    find_number,
    load_registry,
    next_number,
    version_key,
)

if TYPE_CHECKING:
    from pytest_crucible.adapters.freeze import FrozenAdapter
    from pytest_crucible.adapters.weights import Weights


def keep_weights(weights: Weights, folder: Path) -> Mapping[str, StoredWeights]:
    """Copy the files of an adapter, with their lineage, and return where they are. Raises SpecError."""
    return {option: _keep_file(path, weights, folder) for option, path in weights.files.items()}


def check_weights(version: Version, folder: Path) -> None:
    """Raise SpecError for copied weights that were changed or are missing."""
    for stored in version.weights.values():
        path = weights_path(folder, stored)
        if not path.is_file():
            raise SpecError(f"weights of {version.name} are missing: {path} does not exist: restore it from a backup")
        if hash_file(path) != stored.sha256:
            raise changed_weights(version.name)


def _keep_file(path: Path, weights: Weights, folder: Path) -> StoredWeights:
    try:
        return _copy(path, weights, folder)
    except OSError as error:
        raise SpecError(f"{path} cannot be copied into {str(folder)!r}: {error}") from error


def _copy(path: Path, weights: Weights, folder: Path) -> StoredWeights:
    """Copy into a draft, then rename it: a folder appears whole or not at all, also where two processes register at once."""
    # Imported here: it loads numpy, which the list of versions does not need.
    from pytest_crucible.backends.lineages import write_lineage

    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".copying-", dir=folder))
    try:
        copied = draft / path.name
        shutil.copyfile(path, copied)
        # Of the copy: the file may be written again while it is read.
        stored = StoredWeights(sha256=hash_file(copied), file=path.name)
        if weights.lineage is not None:
            write_lineage(draft, weights.lineage)
        draft.chmod(0o755)
        place = weights_path(folder, stored)
        # Damaged weights are replaced by the same ones, intact.
        if place.is_file() and hash_file(place) != stored.sha256:
            shutil.rmtree(place.parent)
        # The folder exists: the same weights were registered before, or are registered by another process now.
        with contextlib.suppress(FileExistsError, OSError):
            os.rename(draft, place.parent)
        return stored
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_model(name: str) -> None:
    """Raise SpecError for a name of a model that could not be written as `NAME@4`."""
    longest = schema.LONGEST_TAG
    require_no_key(name, "model")
    if not re.fullmatch(r"[\w.+-]+", name) or len(name) > longest or name == PRODUCTION:
        raise SpecError(
            f"model {name!r:.120} is not valid: write 1 to {longest} letters, digits and . _ - +, for example claims"
        )


def register_version(
    store: RunStore,
    model: str,
    frozen: FrozenAdapter,
    folder: Path,
    *,
    at: str,
    by: str,
    hide: Callable[[str], str] = str,
) -> tuple[Version, bool]:
    """Return the version of an adapter, and whether it is new: registered again, it has the same number.

    `folder` is the registry's, to which local weights are copied; `hide` redacts keys. Raises SpecError and StoreError.
    """
    check_model(model)
    _check_keys(frozen, hide)
    stored: Mapping[str, StoredWeights] = keep_weights(frozen.weights, folder)
    while True:
        registry = load_registry(store)
        version = _version(model, next_number(store, model), frozen, stored)
        number = find_number(store, model, version_key(version.identity, version.adapter.parameters))
        if number is not None:
            return _version(model, number, frozen, stored), False
        entry = LogEntry(
            at=at, action="register", model=model, number=version.number, state="draft", by=by, why=_step_text(frozen)
        )
        # Another process may have registered meanwhile, perhaps the same adapter.
        if add_version(store, registry, version, entry):
            return version, True


def _version(model: str, number: int, frozen: FrozenAdapter, stored: Mapping[str, StoredWeights]) -> Version:
    lineage = frozen.weights.lineage
    return Version(
        model=model,
        number=number,
        identity=frozen.identity,
        adapter=frozen.adapter,
        weights=stored,
        lineage=None if lineage is None else plain_or_repr(lineage),
    )


def _step_text(frozen: FrozenAdapter) -> str:
    """Return the log's text on weights that a recipe kept before its end."""
    lineage = frozen.weights.lineage
    return "" if lineage is None or lineage.step is None else f"step {lineage.step} of {lineage.recipe}"


def _check_keys(frozen: FrozenAdapter, hide: Callable[[str], str]) -> None:
    """Raise SpecError for a key in the adapter's table: the registry would store it."""
    plain = plain_or_repr(frozen.adapter)
    if redact(plain, hide) != plain:
        raise SpecError(
            f"adapter {frozen.adapter.name!r} has a key in its table, and the registry stores no keys: "
            "put the key into the environment, and name its variable with api_key_env"
        )


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


def registry_problems(
    store: RunStore, registry: StoredRegistry, versions: Sequence[Version], folder: Path
) -> tuple[str, ...]:
    """Return the faults, a sentence each; empty if everything is as it was registered."""
    return tuple(_problems(store, registry, versions, folder))


def _problems(store: RunStore, registry: StoredRegistry, versions: Sequence[Version], folder: Path) -> Iterator[str]:
    try:
        require_intact(registry.rows, registry.head)
    except CrucibleError as error:
        # What follows would be read from the broken log.
        yield str(error)
        return
    for name in changed_versions(store, registry):
        yield f"{name} is not what the registry log registered: restore the store from a backup"
    for version in versions:
        try:
            check_weights(version, folder)
        except CrucibleError as error:
            yield str(error)


def finished_runs(store: RunStore, tag: str) -> list[RunSummary]:
    """Return the finished runs with a tag, the newest first."""
    return [run for run in list_runs(store, tag=tag) if run.status == "finished"]


def judging_run(store: RunStore, tag: str) -> RunSummary | None:
    """Return the newest finished run with a tag, unless it lost something that the next run may obtain; else None.

    Where two runs in turn lost the same, a third would too: for example a sample on which the test raises.
    """
    runs = finished_runs(store, tag)[:2]
    lost = [lost_values(store, run.id) for run in runs]
    return runs[0] if lost and (not lost[0] or lost[0] in lost[1:]) else None


def why_not_judged(store: RunStore, tag: str, version: str) -> str:
    """Return why the runs of a version do not judge it, as a sentence."""
    runs = finished_runs(store, tag)
    if not runs:
        return f"the run of {version} broke: it is judged again at the next look"
    # Without the metric: a reply may have lost several values.
    replies = {place[:-1] for place in lost_values(store, runs[0].id)}
    return f"run {runs[0].id} of {version} lost {quantity(len(replies), 'reply')}: it is judged again at the next look"
