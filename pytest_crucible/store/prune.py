"""Deletes old runs, old cached replies, and datasets, messages and leftovers that nothing uses; and redacts a run again."""

from __future__ import annotations

import datetime
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.redaction import redact
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection, from_json, json_part
from pytest_crucible.store.form_changes import redact_forms
from pytest_crucible.store.part_moves import ORPHAN_S, forget_parts, remove_files, remove_orphans, restore_rows
from pytest_crucible.store.parts import Part
from pytest_crucible.store.runs import DELETING, RunStore, newest_first
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import REFERENCES, referred_text, text_id


@dataclass(frozen=True)
class Leftovers:
    """The leftovers of one feature, such as the saved states of interrupted trainings."""

    key: str
    """Their key in the JSON document of `crucible gc`."""
    noun: str
    folders: Mapping[Path, int]
    """Folder -> bytes on disk."""


def remove_leftovers(leftovers: Leftovers) -> int:
    """Remove leftovers; return the bytes freed."""
    for folder in leftovers.folders:
        # Another process may remove the same one.
        shutil.rmtree(folder, ignore_errors=True)
    return sum(size for folder, size in leftovers.folders.items() if not folder.exists())


RUNNING_DAYS = 7.0
"""Days after which a run that has not ended counts as killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """Runs and cached replies that may be deleted."""

    runs: tuple[str, ...]
    """Newest first."""
    replies: int
    """How many cached replies."""
    before: float | None
    """Cached replies received before this time are deleted; seconds since 1970."""


def find_prunable(
    store: RunStore,
    *,
    at: datetime.datetime,
    keep_runs: int,
    keep_days: float,
    cache_days: float | None,
    needed: Iterable[str] = (),
) -> Prunable:
    """Return runs that are old, not among the newest, not running and not needed; and cached replies older than that.

    Runs with a tag are needed, too. Runs that an interrupted `clear` has left are returned last.
    """
    before = None if cache_days is None else (at - datetime.timedelta(days=cache_days)).timestamp()
    tagged = {*needed, *store.scalars("SELECT run FROM tags")}
    facts = {run: (started, status) for run, started, status in store.rows("SELECT id, started, status FROM runs")}
    old = newest_first(store)[keep_runs:]
    replies = store.scalar("SELECT COUNT(*) FROM reply_cache WHERE created < :before", before=before or 0.0)
    runs = (run for run in old if run not in tagged and _is_over(*facts[run], at, keep_days))
    begun = (run for run, (_, status) in sorted(facts.items()) if status == DELETING)
    return Prunable(runs=(*runs, *begun), replies=replies, before=before)


def clear(store: RunStore, what: Prunable) -> int:
    """Delete them and compact the database. Return the bytes freed, of a server's database only those of parts.

    Other processes can write meanwhile; while a run is running, SQLite's file keeps its size, for rows to come. After an
    interruption, the next call removes the rest. Raises StoreError.
    """
    size, parts = _size(store), list[Part]()
    _hide(store, what.runs)
    for run in what.runs:
        _remove_rows(store, run)
        with store.begin() as connection:
            parts += forget_parts(connection, run)
            _remove(connection, run)
    if what.before is not None:
        store.execute("DELETE FROM reply_cache WHERE created < :before", before=what.before)
    _remove_datasets(store)
    with store.begin() as connection:
        _exclude_writers(connection)
        remove_messages(connection)
        remove_texts(connection)
    with store.connect() as connection:
        # SQLite's copies the whole file, and nothing can be written meanwhile: a session would wait in vain, of a gigabyte.
        if not (connection.is_sqlite and connection.scalar(_IS_RUNNING)):
            connection.execute("VACUUM")
        if connection.is_sqlite:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    freed = remove_files(parts) + remove_orphans(store, parts, time.time() - ORPHAN_S)
    return freed + size - _size(store)


_IS_RUNNING = "SELECT COUNT(*) FROM runs WHERE status = 'running'"


PART_ROWS = 50_000
"""Rows that are about the most that are deleted in one transaction, in 0.1 s."""
FIRST_STEP = 5_000
"""Samples whose rows are deleted at first: 50,000 rows with ten metrics."""
PAUSE_S = 0.02
"""Between two transactions: SQLite lets others try again after 0.1 s at most, and they would hardly ever find it free."""


def _hide(store: RunStore, runs: Sequence[str]) -> None:
    """Let nothing show, compare or reuse runs of which soon only a part is left."""
    with store.begin() as connection:
        for run in runs:
            connection.execute(f"UPDATE arms SET fingerprint = '' WHERE experiment IN ({_EXPERIMENTS})", run=run)
            connection.execute("UPDATE runs SET status = :status WHERE id = :run", status=DELETING, run=run)


def _remove_rows(store: RunStore, run: str) -> None:
    """Delete the rows of a run's units and its events."""
    for arm in list(store.scalars(_ARMS, run=run)):
        for table in _unit_tables():
            _delete_in_parts(store, table, "arm = :arm", "position", arm=arm)
    _delete_in_parts(store, "events", "run = :run", "id", run=run)


def _unit_tables() -> tuple[str, ...]:
    return ("replies", "calls", "observations", "lost", *schema.unit_tables())


def _delete_in_parts(store: RunStore, table: str, where: str, order: str, **values: Any) -> None:
    """Delete the rows that meet a condition, in ranges of the column by which an index has them in order."""
    # Ranges of numbers, because PostgreSQL would sort all that is left to find the 50,000th row of a table without statistics.
    # Two queries, because SQLite finds either end at once, and both only by reading all.
    ends = (f"(SELECT {end}({order}) FROM {table} WHERE {where})" for end in ("MIN", "MAX"))
    first, last = store.first(f"SELECT {', '.join(ends)}", **values)
    statement = f"DELETE FROM {table} WHERE {where} AND {order} >= :first AND {order} < :end"
    step = FIRST_STEP
    while last is not None and first <= last:
        with store.begin() as connection:
            deleted = connection.execute(statement, **values, first=first, end=first + step).rowcount
        first += step
        # A sample may have one row, or one for each metric of each repeat; and other runs have events between those of a run.
        if deleted < PART_ROWS // 2:
            step = min(step * 2, 10 * PART_ROWS)
        elif deleted > PART_ROWS:
            step = max(step // 2, 1)
        time.sleep(PAUSE_S)


def _exclude_writers(connection: Connection) -> None:
    """Keep sessions from writing texts or messages until the transaction ends. SQLite has one writer at a time anyway.

    Otherwise a session that finds its text in the store could commit a reference after `clear` has looked for references.
    """
    if not connection.is_sqlite:
        # In the order in which sessions write them, because locks in another order could deadlock.
        connection.execute("LOCK TABLE texts, messages IN SHARE ROW EXCLUSIVE MODE")


def _is_over(started: str, status: str, at: datetime.datetime, keep_days: float) -> bool:
    days = (at - datetime.datetime.fromisoformat(started)).total_seconds() / 86400
    return days > (max(keep_days, RUNNING_DAYS) if status == "running" else keep_days)


_EXPERIMENTS = "SELECT id FROM experiments WHERE run = :run"
_ARMS = f"SELECT id FROM arms WHERE experiment IN ({_EXPERIMENTS})"


def _remove(connection: Connection, run: str) -> None:
    # What a session has written since its rows were deleted.
    for table in _unit_tables():
        connection.execute(f"DELETE FROM {table} WHERE arm IN ({_ARMS})", run=run)
    for table in ("verdicts", "arms", "variants", "repeats", *schema.experiment_tables()):
        connection.execute(f"DELETE FROM {table} WHERE experiment IN ({_EXPERIMENTS})", run=run)
    for table in ("events", "decisions", "experiments"):
        connection.execute(f"DELETE FROM {table} WHERE run = :run", run=run)
    connection.forget(schema.runs, run)
    connection.execute("DELETE FROM runs WHERE id = :run", run=run)


def _remove_datasets(store: RunStore) -> None:
    """Delete datasets that no plan names any more, and the twins of variants that no experiment has."""
    dataset = _dataset(is_sqlite=store.database.is_sqlite)
    _remove_unused(store, schema.samples, f"SELECT {dataset} FROM experiments WHERE {dataset} IS NOT NULL")
    _remove_unused(store, schema.twins, "SELECT sha256 FROM variants WHERE sha256 IS NOT NULL")


def _remove_unused(store: RunStore, table: Table, used: str) -> None:
    """Delete the rows of a table whose first column is not among those of a query."""
    column = table.key[0]
    # The condition is evaluated in each transaction: a session may enter a plan for the same samples meanwhile.
    where = f"{column} = :key AND :key NOT IN ({used})"
    for key in list(store.scalars(f"SELECT DISTINCT {column} FROM {table.name} WHERE {column} NOT IN ({used})")):
        _delete_in_parts(store, table.name, where, "position", key=key)
        with store.begin() as connection:
            if not connection.scalar(f"SELECT COUNT(*) FROM {table.name} WHERE {column} = :key", key=key):
                connection.forget(table, key)


def _dataset(*, is_sqlite: bool) -> str:
    """Return the SQL for the hash of an experiment's samples."""
    return json_part("plan", "dataset_sha256", is_sqlite=is_sqlite)


def remove_messages(connection: Connection) -> None:
    """Delete messages that no call refers to any more."""
    connection.execute(f"DELETE FROM messages WHERE id NOT IN ({schema.forms_of_calls()})")


def remove_texts(connection: Connection) -> None:
    """Delete texts that no row refers to any more."""
    references = [(name, table) for table in _REFERRING for name in REFERENCES if name in table.names]
    used = " UNION ALL ".join(f"SELECT {name} FROM {table.name} WHERE {name} IS NOT NULL" for name, table in references)
    connection.execute(f"DELETE FROM texts WHERE id NOT IN ({used})")


_REFERRING = (schema.replies, schema.calls, schema.reply_cache)


def _size(store: RunStore) -> int:
    """Return the bytes of the database file and its log; 0 for a server's database."""
    path = store.database.path
    files = (Path(path), Path(f"{path}-wal")) if path else ()
    return sum(file.stat().st_size for file in files if file.exists())


_TEXTS = {
    schema.replies: ("text", "detail"),
    schema.calls: ("text", "error", "parameters", "answered_by"),
    schema.observations: ("label", "reason"),
    schema.lost: ("detail",),
    schema.events: ("error", "facts"),
    schema.samples: ("input", "expected", "metadata"),
    schema.twins: ("input", "expected", "reason", "facts"),
}
"""The columns with texts of samples, models and servers. Ids and names are joined by, and stay as they were first stored."""


def _feature_texts() -> dict[Table, tuple[str, ...]]:
    columns = {
        table: tuple(column.name for column in table.columns if column.type in ("TEXT", "JSON"))
        for table in schema.unit_tables().values()
    }
    return {table: names for table, names in columns.items() if names}


def redact_again(store: RunStore, run: str, hide: Callable[[str], str]) -> None:
    """Redact all texts of a run in one transaction. Raises StoreError."""
    with store.begin() as connection:
        restore_rows(connection, run)
        for table, columns in {**_TEXTS, **_feature_texts()}.items():
            with connection.changing(table, _of_run(connection, table), run=run):
                _redact_columns(connection, table, columns, run, hide)
                for column in REFERENCES:
                    if table in _REFERRING and column in table.names:
                        _redact_texts(connection, table.name, column, run, hide)
        redact_forms(connection, run, hide)
        _remove_cached(connection, run, hide)
        remove_messages(connection)
        remove_texts(connection)


def _of_run(connection: Connection, table: Table) -> str:
    """Return the SQL condition on the rows of :run."""
    if table is schema.events:
        return "run = :run"
    if table is schema.samples:
        return f"dataset IN (SELECT {_dataset(is_sqlite=connection.is_sqlite)} FROM experiments WHERE run = :run)"
    if table is schema.twins:
        return f"variant IN (SELECT sha256 FROM variants WHERE experiment IN ({_EXPERIMENTS}))"
    return _OF_ARMS


_OF_ARMS = f"arm IN ({_ARMS})"


def _redact_columns(
    connection: Connection, table: Table, columns: tuple[str, ...], run: str, hide: Callable[[str], str]
) -> None:
    query = f"SELECT {', '.join(table.key + columns)} FROM {table.name} WHERE {_of_run(connection, table)}"
    for row in list(connection.named_rows(query, run=run)):
        changed = {
            name: new for name in columns if (new := _redact_stored(row[name], table.type_of(name), hide)) != row[name]
        }
        if changed:
            values = ", ".join(f"{name} = :{name}" for name in changed)
            key = " AND ".join(f"{name} = :{name}" for name in table.key)
            key_values = {name: row[name] for name in table.key}
            connection.execute(f"UPDATE {table.name} SET {values} WHERE {key}", **changed, **key_values)


def _redact_stored(stored: Any, type: str, hide: Callable[[str], str]) -> Any:
    """Return a stored text, or the text of a JSON value, redacted; what is stored where nothing in it is to hide."""
    if type != "JSON":
        return redact(stored, hide)
    value = from_json(stored)
    new = redact(value, hide)
    return stored if new == value else json.dumps(new)


def _redact_texts(connection: Connection, table: str, column: str, run: str, hide: Callable[[str], str]) -> None:
    """Let rows refer to redacted texts. The texts themselves stay for the rows of other runs, if there are any."""
    query = f"SELECT id, body FROM texts WHERE id IN (SELECT {column} FROM {table} WHERE {_OF_ARMS})"
    for old, body in connection.execute(query, run=run).fetchall():
        if (redacted := _redact_stored(body, "JSON" if column == "parameters_id" else "TEXT", hide)) != body:
            new = text_id(redacted)
            connection.insert(schema.texts, [{"id": new, "body": redacted}])
            statement = f"UPDATE {table} SET {column} = :new WHERE {column} = :old AND {_OF_ARMS}"
            connection.execute(statement, new=new, old=old, run=run)


def _remove_cached(connection: Connection, run: str, hide: Callable[[str], str]) -> None:
    """Delete cached replies with findings: changed, they would not be the model's."""
    apart = ", ".join(referred_text(f"reply_cache.{name}") for name in REFERENCES if name in schema.reply_cache.names)
    query = f"SELECT key, reply, text, {apart} FROM reply_cache WHERE run = :run"
    for key, *parts in connection.execute(query, run=run).fetchall():
        if any(part and hide(part) != part for part in parts):
            connection.execute("DELETE FROM reply_cache WHERE key = :key", key=key)
