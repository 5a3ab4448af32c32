"""Durable writes off the hot path: the sampling loop appends to lists, a thread commits them several times a second."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Table
from sqlalchemy.exc import OperationalError

from pytest_crucible.errors import StoreError
from pytest_crucible.numerals import counted
from pytest_crucible.records import Event, Lost, Observation, Outcome
from pytest_crucible.store import schema
from pytest_crucible.store.event_rows import event_rows
from pytest_crucible.store.inserting import insert_many
from pytest_crucible.store.opening import explained
from pytest_crucible.store.texts import storable
from pytest_crucible.store.unsaved import Rows

INTERVAL_S = 0.25
"""How often rows are committed."""
BEHIND_S = 0.5
"""A row that has waited for longer holds up the sampling: with the time of a commit, a killed process loses a second."""
AT_ONCE = 1_000
"""Rows that are enough to commit before the interval is over: in small parts, as each holds up the sampling meanwhile."""
TOO_MANY = 10_000
"""Rows that hold up the sampling while they wait."""

_A_WORD = 16
"""Characters of what ended a reply: a backend may say it in words of its own."""

Row = dict[str, Any]


@dataclass(slots=True)
class _Batch:
    """Rows that are committed together."""

    rows: defaultdict[Table, list[Row]] = field(default_factory=lambda: defaultdict(list))
    keyed: dict[tuple[Table, bool], dict[str, Row]] = field(default_factory=dict)
    """By the table and whether they take the place of what is there, and then by their key."""
    events: list[tuple[str, Event]] = field(default_factory=list)
    """With the run of each. They become rows when they are written: the sampling loop does not wait for that."""
    count: int = 0
    since: float = math.inf
    """When the first row was added."""

    def tables(self) -> list[Rows]:
        """The rows by table, in the order of their keys; keyed ones last, and whether they take the place of what is there.

        Others may be writing the same keys at this moment: all do it in one order of tables and keys, or they would wait for
        each other for ever.
        And to store neighbours costs less than to store rows here and there.
        """
        by_name = sorted(self.rows.items(), key=lambda one: one[0].name)
        told = [(table, False, _in_order(table, many)) for table, many in by_name if many]
        keyed = sorted(self.keyed.items(), key=lambda one: (one[0][0].name, one[0][1]))
        return [*told, *((table, over, [rows[key] for key in sorted(rows)]) for (table, over), rows in keyed)]


class Writer:
    """Takes outcomes from any thread. A write that failed for good is raised by the next `add` and by `close`.

    What is added after that is kept with what failed: it was answered, and paid for.
    """

    def __init__(
        self, engine: Engine, location: str, hide: Callable[[str], str], keep: Callable[[Sequence[Rows]], Path | None]
    ) -> None:
        """`hide` takes out of each text what must not be stored; `keep` writes down what the database does not take."""
        self._engine = engine
        self._hide = hide
        self._keep = keep
        self._location = location
        self._waiting, self._in_hand = _Batch(), _Batch()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._failure: StoreError | None = None
        self._thread = threading.Thread(target=self._run, name="crucible-writer", daemon=True)
        self._thread.start()

    def add(self, outcome: Outcome, arm: int, observations: Sequence[Observation], lost: Sequence[Lost]) -> None:
        """Remember what became of one unit; `arm` is the arm's key. Raises StoreError if an earlier write failed."""
        with self._lock:
            rows = self._waiting.rows
            if not outcome.lost:
                rows[schema.replies].append(_reply_row(outcome, arm, self._hide))
            for one in observations:
                rows[schema.observations].append(_observation_row(one, arm, self._hide))
            for value in lost:
                rows[schema.lost].append(_lost_row(value, arm, self._hide))
            self._added(1 + len(observations))
        self._told()

    def put(self, table: Table, row: Row, *, overwrite: bool = False) -> None:
        """Remember a row of a table whose key is its first column; `overwrite` takes the place of one that is there.

        Raises StoreError if an earlier write failed.
        """
        key = row[table.columns[0].name]
        with self._lock:
            batch = self._waiting
            rows = batch.keyed.setdefault((table, overwrite), {})
            rows[key] = row if overwrite else rows.get(key, row)
            self._added(1)
        self._told()

    def tell(self, run: str, event: Event) -> None:
        """Remember an event of a run. It never raises: a write that failed is told by `add`."""
        with self._lock:
            self._waiting.events.append((run, event))
            self._added(1)

    def waiting(self, table: Table, key: str) -> Row | None:
        """A row that was put and is not committed yet; one that is can be read."""
        with self._lock:
            batches = (self._waiting, self._in_hand)
        for batch in batches:
            for (of, _), rows in batch.keyed.items():
                if of is table and key in rows:
                    return rows[key]
        return None

    def behind(self) -> bool:
        """Has some row waited for too long, or do too many? Then ask nothing more for a moment.

        A busy loop keeps the thread from writing: they share one interpreter lock.
        """
        oldest = min(self._waiting.since, self._in_hand.since)
        overdue = time.monotonic() - oldest > BEHIND_S or self._waiting.count > TOO_MANY
        return self._failure is None and overdue

    def flush(self) -> None:
        """Commit everything that was added. Raises StoreError."""
        self._commit()
        self._told()

    def close(self) -> None:
        """Commit the rest and end the thread. Raises StoreError. Idempotent."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self.flush()

    def _added(self, rows: int) -> None:
        """With the lock held."""
        batch = self._waiting
        batch.count += rows
        batch.since = min(batch.since, time.monotonic())
        if batch.count >= AT_ONCE:
            self._wake.set()

    def _told(self) -> None:
        """Whoever adds is told that nothing is written any more."""
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        while not self._closing and not self._failure:
            self._wake.wait(INTERVAL_S)
            self._wake.clear()
            self._commit()

    def _commit(self) -> None:
        with self._writing:  # a flush returns only when the rows that the thread had taken are written too
            with self._lock:
                self._in_hand, self._waiting = self._waiting, _Batch()
            if self._in_hand.events:
                self._in_hand.rows[schema.events] = event_rows(self._in_hand.events, self._hide)
            if self._in_hand.count:
                self._try(self._in_hand)
            self._in_hand = _Batch()

    def _try(self, batch: _Batch) -> None:
        """What comes after a failure is kept beside what failed: the database has been given up."""
        if self._failure:
            self._keep(batch.tables())
            return
        try:
            with explained(self._location):
                _write(self._engine, batch)
        except Exception as error:  # whatever it is, it must reach the session, and this thread has nobody above it
            said = error if isinstance(error, StoreError) else f"run store {self._location!r} cannot take it: {error!r}"
            self._failure = StoreError(f"{said} ({self._left(batch, error)})")

    def _left(self, batch: _Batch, error: Exception) -> str:
        """What becomes of the rows. Those that no database would take are not kept: it would refuse them again."""
        tables = batch.tables()
        rows = counted(sum(len(many) for _, _, many in tables), "row")
        path = self._keep(tables) if isinstance(error.__cause__, OperationalError) else None
        if path is None:
            return f"{rows} of this run not saved"
        return f"{rows} of this run kept in {str(path)!r}, from where the next run takes them"


def _in_order(table: Table, rows: list[Row]) -> list[Row]:
    """By their keys; as they came where the database gives out the keys."""
    names = [column.name for column in table.primary_key]
    return sorted(rows, key=itemgetter(*names)) if names[0] in rows[0] else rows


def _write(engine: Engine, batch: _Batch) -> None:
    with engine.begin() as connection:
        for table, overwrite, many in batch.tables():
            insert_many(connection, table, many, over=overwrite)


def _reply_row(outcome: Outcome, arm: int, hide: Callable[[str], str]) -> Row:
    reply = outcome.reply
    return {
        "arm": arm,
        "position": outcome.position,
        "epoch": outcome.epoch,
        "text": storable(hide(reply.text)) if reply else None,
        "input_tokens": reply.input_tokens if reply else None,
        "output_tokens": reply.output_tokens if reply else None,
        "latency_s": reply.latency_s if reply else None,
        "finish": storable(reply.finish)[:_A_WORD] if reply else None,
        "failure": outcome.failure,
        "skipped": outcome.skipped,
        "detail": storable(hide(outcome.detail)) or None,
        "started": outcome.started,
    }


def _observation_row(one: Observation, arm: int, hide: Callable[[str], str]) -> Row:
    is_label = isinstance(one.value, str)
    return {
        "arm": arm,
        "position": one.position,
        "epoch": one.epoch,
        "metric": one.metric,
        "value": None if one.value is None or is_label else float(one.value),
        "is_bool": isinstance(one.value, bool),
        "label": storable(hide(str(one.value))) if is_label else None,
        "reason": storable(hide(one.reason)) or None,
    }


def _lost_row(one: Lost, arm: int, hide: Callable[[str], str]) -> Row:
    return {
        "arm": arm,
        "position": one.position,
        "epoch": one.epoch,
        "metric": one.metric or "",
        "reason": one.reason,
        "detail": storable(hide(one.detail)) or None,
    }
