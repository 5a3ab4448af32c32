"""Deletes old runs, old cached replies, and datasets, messages and leftovers that nothing uses; and redacts a run again."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, func, select, union_all, update

from pytest_crucible.records.redaction import redact
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors, insert_many
from pytest_crucible.store.runs import RunStore, newest_first
from pytest_crucible.store.texts import (
    REFERENCES,
    form_key,
    pack_form,
    redact_form,
    referred_text,
    text_id,
    unpack_form,
)


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

    Runs with a tag are needed, too.
    """
    before = None if cache_days is None else (at - datetime.timedelta(days=cache_days)).timestamp()
    cache, table = schema.reply_cache, schema.runs
    tagged = {*needed, *store.scalars(select(schema.tags.c.run))}
    facts = {row.id: row for row in store.rows(select(table.c.id, table.c.started, table.c.status))}
    old = newest_first(store)[keep_runs:]
    replies = store.scalar(select(func.count()).select_from(cache).where(cache.c.created < (before or 0.0)))
    runs = (run for run in old if run not in tagged and _is_over(facts[run], at, keep_days))
    return Prunable(runs=tuple(runs), replies=replies, before=before)


def clear(store: RunStore, what: Prunable) -> int:
    """Delete them and compact the database. Return the bytes freed on disk; 0 for a server. Raises StoreError."""
    size = _size(store)
    with explain_errors(store.location):
        with store.engine.begin() as connection:
            _exclude_writers(connection)
            for run in what.runs:
                _remove(connection, run)
            if what.before is not None:
                connection.execute(delete(schema.reply_cache).where(schema.reply_cache.c.created < what.before))
            _remove_datasets(connection)
            remove_messages(connection)
            remove_texts(connection)
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM")
            if store.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return size - _size(store)


def _exclude_writers(connection: Connection) -> None:
    """Keep sessions from writing texts or messages until the transaction ends. SQLite has one writer at a time anyway.

    Otherwise a session that finds its text in the store could commit a reference after `clear` has looked for references.
    """
    if connection.dialect.name == "postgresql":
        # In the order in which sessions write them, because locks in another order could deadlock.
        connection.exec_driver_sql("LOCK TABLE texts, messages IN SHARE ROW EXCLUSIVE MODE")


def _is_over(run: Any, at: datetime.datetime, keep_days: float) -> bool:
    days = (at - datetime.datetime.fromisoformat(run.started)).total_seconds() / 86400
    return days > (max(keep_days, RUNNING_DAYS) if run.status == "running" else keep_days)


def _remove(connection: Connection, run: str) -> None:
    experiments = select(schema.experiments.c.id).where(schema.experiments.c.run == run)
    arms = select(schema.arms.c.id).where(schema.arms.c.experiment.in_(experiments))
    for table in (schema.replies, schema.calls, schema.observations, schema.lost):
        connection.execute(delete(table).where(table.c.arm.in_(arms)))
    for table in (schema.verdicts, schema.arms, schema.variants, schema.repeats):
        connection.execute(delete(table).where(table.c.experiment.in_(experiments)))
    for table in (schema.events, schema.decisions, schema.experiments):
        connection.execute(delete(table).where(table.c.run == run))
    connection.execute(delete(schema.runs).where(schema.runs.c.id == run))


def _remove_datasets(connection: Connection) -> None:
    """Delete datasets that no plan names any more, and the twins of variants that no experiment has."""
    used = {plan["dataset_sha256"] for plan in connection.execute(select(schema.experiments.c.plan)).scalars()}
    stored = connection.execute(select(schema.samples.c.dataset).distinct()).scalars()
    for dataset in set(stored) - used:
        connection.execute(delete(schema.samples).where(schema.samples.c.dataset == dataset))
    named = select(schema.variants.c.sha256).where(schema.variants.c.sha256.is_not(None))
    connection.execute(delete(schema.twins).where(schema.twins.c.variant.not_in(named)))


def remove_messages(connection: Connection) -> None:
    """Delete messages that no call refers to any more."""
    table = schema.calls
    used = select(table.c.messages).where(table.c.messages.is_not(None))
    connection.execute(delete(schema.messages).where(schema.messages.c.id.not_in(used)))


def remove_texts(connection: Connection) -> None:
    """Delete texts that no row refers to any more."""
    texts, tables = schema.texts, (schema.replies, schema.calls, schema.reply_cache)
    references = [table.c[name] for table in tables for name in REFERENCES if name in table.c]
    used = union_all(*(select(column).where(column.is_not(None)) for column in references))
    connection.execute(delete(texts).where(texts.c.id.not_in(used)))


def _size(store: RunStore) -> int:
    """Return the bytes of the database file and its log; 0 for a server's database."""
    path = store.engine.url.database
    if store.engine.dialect.name != "sqlite" or path is None:
        return 0
    return sum(file.stat().st_size for file in (Path(path), Path(f"{path}-wal")) if file.exists())


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


def redact_again(store: RunStore, run: str, hide: Callable[[str], str]) -> None:
    """Redact all texts of a run in one transaction. Raises StoreError."""
    with store.begin() as connection:
        for table, columns in _TEXTS.items():
            _redact_columns(connection, table, columns, _of_run(table, run), hide)
        for table in (schema.replies, schema.calls):
            for column in REFERENCES:
                if column in table.c:
                    _redact_texts(connection, table, column, _of_run(table, run), hide)
        _redact_messages(connection, run, hide)
        _remove_cached(connection, run, hide)
        remove_messages(connection)
        remove_texts(connection)


def _of_run(table: Table, run: str) -> Any:
    """Return the condition on the rows of a run."""
    experiments = select(schema.experiments.c.id).where(schema.experiments.c.run == run)
    if table is schema.events:
        return table.c.run == run
    if table is schema.samples:
        digest = schema.experiments.c.plan["dataset_sha256"].as_string()
        return table.c.dataset.in_(select(digest).where(schema.experiments.c.run == run))
    if table is schema.twins:
        variants = schema.variants.c
        return table.c.variant.in_(select(variants.sha256).where(variants.experiment.in_(experiments)))
    return table.c.arm.in_(select(schema.arms.c.id).where(schema.arms.c.experiment.in_(experiments)))


def _redact_columns(
    connection: Connection, table: Table, columns: tuple[str, ...], where: Any, hide: Callable[[str], str]
) -> None:
    key = list(table.primary_key)
    for row in connection.execute(select(*key, *(table.c[name] for name in columns)).where(where)).mappings().all():
        changed = {name: new for name in columns if (new := redact(row[name], hide)) != row[name]}
        if changed:
            connection.execute(update(table).where(*(column == row[column.name] for column in key)).values(**changed))


def _redact_texts(connection: Connection, table: Table, column: str, where: Any, hide: Callable[[str], str]) -> None:
    """Let rows refer to redacted texts. The texts themselves stay for the rows of other runs, if there are any."""
    reference = table.c[column]
    texts: Select[Any] = select(schema.texts).where(schema.texts.c.id.in_(select(reference).where(where)))
    for old, body in connection.execute(texts).all():
        if (redacted := hide(body)) != body:
            new = text_id(redacted)
            insert_many(connection, schema.texts, [{"id": new, "body": redacted}], over=False)
            connection.execute(update(table).where(where, reference == old).values({column: new}))


def _redact_messages(connection: Connection, run: str, hide: Callable[[str], str]) -> None:
    calls = schema.calls
    where = _of_run(calls, run)
    forms = select(schema.messages).where(schema.messages.c.id.in_(select(calls.c.messages).where(where)))
    for old, body in connection.execute(forms).all():
        form = unpack_form(body)
        redacted = redact_form(form, hide)
        if redacted != form:
            row = {"id": form_key(redacted), "body": pack_form(redacted)}
            insert_many(connection, schema.messages, [row], over=False)
            connection.execute(update(calls).where(where, calls.c.messages == old).values(messages=row["id"]))


def _remove_cached(connection: Connection, run: str, hide: Callable[[str], str]) -> None:
    """Delete cached replies with findings: changed, they would not be the model's."""
    table = schema.reply_cache
    apart = (referred_text(table.c[name]).label(f"of_{name}") for name in REFERENCES)
    query = select(table.c.key, table.c.reply, table.c.text, *apart).where(table.c.run == run)
    for key, *parts in connection.execute(query).all():
        if any(part and hide(part) != part for part in parts):
            connection.execute(delete(table).where(table.c.key == key))
