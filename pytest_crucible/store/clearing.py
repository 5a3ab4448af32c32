"""Removing runs, cached replies and datasets that nobody asks any more."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, select

from pytest_crucible.store import schema
from pytest_crucible.store.naming import newest_first
from pytest_crucible.store.opening import explained
from pytest_crucible.store.runs import RunStore

RUNNING_DAYS = 7.0
"""A run that began longer ago and has not ended was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearable:
    """What may go."""

    runs: tuple[str, ...]
    """Newest first."""
    replies: int
    """Cached ones."""
    before: float | None
    """Cached replies that were given before go; seconds since 1970."""


def clearable(
    store: RunStore, *, at: datetime.datetime, keep_runs: int, keep_days: float, cache_days: float | None
) -> Clearable:
    """Runs that are neither among the newest nor young, without a tag and not running; and cached replies of that age."""
    before = None if cache_days is None else (at - datetime.timedelta(days=cache_days)).timestamp()
    cache, table = schema.reply_cache, schema.runs
    with explained(store.location), store.engine.connect() as connection:
        tagged = set(connection.execute(select(schema.tags.c.run)).scalars())
        facts = {row.id: row for row in connection.execute(select(table.c.id, table.c.started, table.c.status))}
        old = newest_first(connection)[keep_runs:]
        count = select(func.count()).select_from(cache).where(cache.c.created < (before or 0.0))
        replies = connection.execute(count).scalar_one()
    runs = (run for run in old if run not in tagged and _is_over(facts[run], at, keep_days))
    return Clearable(runs=tuple(runs), replies=replies, before=before)


def clear(store: RunStore, what: Clearable) -> int:
    """Remove it, and give its room back to the disk; how many bytes that were, where it is a file. Raises StoreError."""
    size = _size(store)
    with explained(store.location):
        with store.engine.begin() as connection:
            for run in what.runs:
                _remove(connection, run)
            if what.before is not None:
                connection.execute(delete(schema.reply_cache).where(schema.reply_cache.c.created < what.before))
            _remove_datasets(connection)
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM")
            if store.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return size - _size(store)


def _is_over(run: Any, at: datetime.datetime, keep_days: float) -> bool:
    days = (at - datetime.datetime.fromisoformat(run.started)).total_seconds() / 86400
    return days > (max(keep_days, RUNNING_DAYS) if run.status == "running" else keep_days)


def _remove(connection: Connection, run: str) -> None:
    experiments = select(schema.experiments.c.id).where(schema.experiments.c.run == run)
    arms = select(schema.arms.c.id).where(schema.arms.c.experiment.in_(experiments))
    for table in (schema.replies, schema.observations, schema.lost):
        connection.execute(delete(table).where(table.c.arm.in_(arms)))
    for table in (schema.verdicts, schema.arms):
        connection.execute(delete(table).where(table.c.experiment.in_(experiments)))
    for table in (schema.events, schema.experiments):
        connection.execute(delete(table).where(table.c.run == run))
    connection.execute(delete(schema.runs).where(schema.runs.c.id == run))


def _remove_datasets(connection: Connection) -> None:
    """Those that no plan names any more."""
    asked = {plan["dataset_sha256"] for plan in connection.execute(select(schema.experiments.c.plan)).scalars()}
    known = connection.execute(select(schema.samples.c.dataset).distinct()).scalars()
    for dataset in set(known) - asked:
        connection.execute(delete(schema.samples).where(schema.samples.c.dataset == dataset))


def _size(store: RunStore) -> int:
    """Of a file with its log; 0 for a server's database."""
    path = store.engine.url.database
    if store.engine.dialect.name != "sqlite" or path is None:
        return 0
    return sum(one.stat().st_size for one in (Path(path), Path(f"{path}-wal")) if one.exists())
