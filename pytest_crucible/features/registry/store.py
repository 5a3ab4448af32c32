"""The tables of the model registry in the run store: reads and writes versions, and appends to the log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from pytest_crucible.features.registry.records import GateEntry, LogEntry, Version, VersionState
from pytest_crucible.features.registry.tables import registry_head
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import canonical, from_plain, to_plain
from pytest_crucible.store.database import Connection
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True)
class StoredRegistry:
    """The log as it was read at one moment. A transition is made against it."""

    rows: Sequence[LogRow]
    head: Head

    @cached_property
    def log(self) -> tuple[LogEntry | GateEntry, ...]:
        """All rows, in their order."""
        return tuple(_entry(json.loads(row.body)) for row in self.rows)

    @cached_property
    def entries(self) -> tuple[LogEntry, ...]:
        """The changes of versions."""
        return tuple(entry for entry in self.log if isinstance(entry, LogEntry))

    def gates(self, model: str) -> list[GateEntry]:
        """Return the gates that a model has had, the present one last."""
        return [entry for entry in self.log if isinstance(entry, GateEntry) and entry.model == model]

    @cached_property
    def state(self) -> RegistryState:
        return registry_state(self.entries)


def load_registry(store: RunStore, *, check: bool = True) -> StoredRegistry:
    """Return the registry. Raises StoreError for a log that was changed, unless `check` is False."""
    with store.connect() as connection:
        rows, head = read_log(connection)
    if check:
        require_intact(rows, head)
    return StoredRegistry(rows, head)


def append_entries(store: RunStore, registry: StoredRegistry, entries: Sequence[LogEntry | GateEntry]) -> bool:
    """Append entries in one transaction; return False, with nothing written, where the registry has changed since."""
    with store.begin() as connection:
        return append_rows(connection, registry.head, [_to_stored_text(store, entry) for entry in entries])


def add_version(store: RunStore, registry: StoredRegistry, version: Version, entry: LogEntry) -> bool:
    """Enter a version with its first log entry in one transaction; return False where the registry has changed since."""
    body, key = _to_stored_text(store, version), version_key(version.identity, version.adapter.parameters)
    row = {"model": version.model, "number": version.number, "key": key, "body": body}
    bodies = [_to_stored_text(store, replace(entry, digest=_digest(body)))]
    statement = "INSERT INTO model_versions (model, number, key, body) VALUES (:model, :number, :key, :body)"
    with store.begin() as connection:
        if not append_rows(connection, registry.head, bodies):
            return False
        connection.execute(statement, **row)
    return True


def version_key(identity: str, parameters: Mapping[str, Any]) -> str:
    """Return the key that distinguishes versions of one model: the SHA-256 of an adapter's identity and parameters."""
    return _digest(canonical([identity, dict(parameters)]))


def check_row(store: RunStore, registry: StoredRegistry, version: Version) -> None:
    """Raise StoreError if a version differs from its entry in the log."""
    digests = (entry.digest for entry in registry.entries if entry.digest and entry.version == version.name)
    if next(digests, "") != _digest(_body(store, version.model, version.number) or ""):
        raise StoreError(f"{version.name} is not what the registry log registered: restore the store from a backup")


def find_number(store: RunStore, model: str, key: str) -> int | None:
    """Return the number of the version with this key; None if it is not registered."""
    query = "SELECT number FROM model_versions WHERE model = :model AND key = :key"
    number = store.scalar(query, model=model, key=key)
    return None if number is None else int(number)


def next_number(store: RunStore, model: str) -> int:
    """Return the number of a model's next version."""
    last = store.scalar("SELECT MAX(number) FROM model_versions WHERE model = :model", model=model)
    return (last or 0) + 1


def load_version(store: RunStore, model: str, number: int) -> Version | None:
    """Return a version; None for an unknown number."""
    body = _body(store, model, number)
    return None if body is None else from_plain(Version, json.loads(body))


def load_versions(store: RunStore, keys: Iterable[str] | None = None) -> list[Version]:
    """Return all versions, or those with one of these keys, by model and number."""
    named = "" if keys is None else "WHERE key IN (:keys)"
    query = f"SELECT body FROM model_versions {named} ORDER BY model, number"
    return [from_plain(Version, json.loads(body)) for body in store.scalars(query, keys=list(keys or ()))]


def changed_versions(store: RunStore, registry: StoredRegistry) -> list[str]:
    """Return the versions whose stored row is not the one that the log registered: changed, removed or added by hand."""
    rows = store.rows("SELECT model, number, body FROM model_versions")
    stored = {f"{model}@{number}": _digest(body) for model, number, body in rows}
    logged = {entry.version: entry.digest for entry in registry.entries if entry.action == "register"}
    return sorted(name for name in {*stored, *logged} if stored.get(name) != logged.get(name))


def runs_in_log(store: RunStore) -> set[str]:
    """Return the runs that the log names as proof, which must be kept."""
    bodies = store.scalars("SELECT body FROM registry_log")
    return {run for body in bodies if (run := json.loads(body).get("run"))}


def _to_stored_text(store: RunStore, record: LogEntry | GateEntry | Version) -> str:
    """Return a record as the JSON that is stored, redacted first: its hash is that of the stored text."""
    return canonical(redact(to_plain(record), store.hide))


def _body(store: RunStore, model: str, number: int) -> str | None:
    query = "SELECT body FROM model_versions WHERE model = :model AND number = :number"
    body: str | None = store.scalar(query, model=model, number=number)
    return body


def _entry(plain: dict[str, Any]) -> LogEntry | GateEntry:
    if "gate" in plain:
        return from_plain(GateEntry, plain)
    # All its values but one are as JSON has them: `from_plain` takes ten times as long, and a log may have 20,000 rows.
    plain["forced"] = tuple(plain["forced"])
    return LogEntry(**plain) if plain.keys() <= _FIELDS else from_plain(LogEntry, plain)


_FIELDS = {field.name for field in fields(LogEntry)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Head(NamedTuple):
    """The last row of the log: its number, and its digest."""

    number: int
    digest: str


class LogRow(NamedTuple):
    """One stored row of the log."""

    number: int
    body: str
    digest: str


EMPTY = Head(0, "")
"""The head of a log without rows."""


def read_log(connection: Connection) -> tuple[list[LogRow], Head]:
    """Return all rows of the log in their order, and the head."""
    # One statement sees rows and head as they were at one moment: two would take a transition in between for a broken log.
    query = """
        SELECT 0 AS is_head, number, body, digest FROM registry_log
        UNION ALL SELECT 1, number, '', digest FROM registry_head
        ORDER BY is_head, number
    """
    read = connection.execute(query).fetchall()
    heads = [Head(number, digest) for is_head, number, _, digest in read if is_head]
    return [LogRow(*row) for is_head, *row in read if not is_head], (heads or [EMPTY])[0]


def broken_row(rows: Sequence[LogRow], head: Head) -> int | None:
    """Return the number of the first row that does not match its hash, or is missing; None if all of the log is intact."""
    digest = EMPTY.digest
    for expected, row in enumerate(rows, start=1):
        if row.number != expected or row.digest != chained_digest(digest, row.body):
            return expected
        digest = row.digest
    # Without rows at its end the chain still matches, but the head shows that they existed.
    return None if head == Head(len(rows), digest) else min(len(rows), head.number) + 1


def append_rows(connection: Connection, head: Head, bodies: Sequence[str]) -> bool:
    """Append rows to the log that ends with `head`; return False, with nothing written, where it has grown since.

    The caller's transaction makes all of it visible at once. Waits for another transition that has not ended yet.
    """
    rows, digest = list[LogRow](), head.digest
    for number, body in enumerate(bodies, start=head.number + 1):
        digest = chained_digest(digest, body)
        rows.append(LogRow(number, body, digest))
    if not _replace_head(connection, head, Head(rows[-1].number, digest)):
        return False
    statement = "INSERT INTO registry_log (number, body, digest) VALUES (:number, :body, :digest)"
    connection.execute_many(statement, [row._asdict() for row in rows])
    return True


def chained_digest(former: str, body: str) -> str:
    """Return the digest of a row: the SHA-256 of the digest of the row before it, and of its own body."""
    return hashlib.sha256(f"{former}\n{body}".encode()).hexdigest()


def require_intact(rows: Sequence[LogRow], head: Head) -> None:
    """Raise StoreError, with the number of the row, for a log that was changed."""
    number = broken_row(rows, head)
    if number is not None:
        raise StoreError(f"row {number} of the registry log does not match its hash: restore the store from a backup")


def _replace_head(connection: Connection, former: Head, head: Head) -> bool:
    # The first transition has no row to replace.
    connection.insert(registry_head, [{"id": 1, **EMPTY._asdict()}])
    statement = """
        UPDATE registry_head SET number = :number, digest = :digest
        WHERE number = :former_number AND digest = :former_digest
    """
    of_former = {"former_number": former.number, "former_digest": former.digest}
    return connection.execute(statement, **head._asdict(), **of_former).rowcount == 1


PRODUCTION: VersionState = "production"
STAGED: VersionState = "staged"


@dataclass(slots=True)
class RegistryState:
    """The states of all versions after the last entry of the log."""

    statuses: dict[tuple[str, int], LogEntry] = field(default_factory=dict)
    """The entry that gave each version its state."""
    tenures: dict[str, list[int]] = field(default_factory=dict)
    """Model -> the versions that were in production and may be restored, the latest last; it may still be there."""
    proofs: dict[tuple[str, int], LogEntry] = field(default_factory=dict)
    """The last promotion of each version that has been promoted."""

    @property
    def models(self) -> list[str]:
        """The models, in the order in which they were first registered."""
        return list(dict.fromkeys(model for model, _ in self.statuses))

    def of(self, model: str) -> list[LogEntry]:
        """Return the versions of a model, in the order of their numbers."""
        return [status for (name, _), status in self.statuses.items() if name == model]

    def holder(self, model: str, state: VersionState) -> LogEntry | None:
        """Return the version of a model that is in this state; None without one. For `staged` and `production`."""
        return next((status for status in self.of(model) if status.state == state), None)

    def earlier_production(self, model: str) -> int | None:
        """Return the version that a rollback restores; None if the model has no earlier one."""
        holder = self.holder(model, PRODUCTION)
        earlier = [number for number in self.tenures.get(model, ()) if holder is None or number != holder.number]
        return earlier[-1] if earlier else None


def registry_state(entries: Iterable[LogEntry]) -> RegistryState:
    """Return the states that these entries lead to."""
    state = RegistryState()
    for entry in entries:
        state.statuses[entry.model, entry.number] = entry
        if entry.action == "promote" and entry.evidence:
            state.proofs[entry.model, entry.number] = entry
        _record_tenure(state.tenures.setdefault(entry.model, []), entry)
    return state


def _record_tenure(tenures: list[int], entry: LogEntry) -> None:
    """Enter a version that came into production, and drop one that was withdrawn: a rollback must not restore it."""
    withdrawn = entry.state == "rolled-back" or entry.action == "retire"
    if (withdrawn or entry.state == PRODUCTION) and entry.number in tenures:
        tenures.remove(entry.number)
    if entry.state == PRODUCTION:
        tenures.append(entry.number)
