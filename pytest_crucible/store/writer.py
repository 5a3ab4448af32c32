"""Durable writes outside of the sampling loop, which appends to lists that a thread commits several times a second."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from pytest_crucible.records import Emit, Event, Lost, Observation, Outcome
from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.outcomes import copy_rows
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store import schema
from pytest_crucible.store.database import BATCH_SIZE, Connection, Database
from pytest_crucible.store.opening import explain_errors
from pytest_crucible.store.rows import (
    NOT_STORED,
    CallRows,
    FeatureUnit,
    StoredUnit,
    event_rows,
    feature_rows,
    finish_text,
)
from pytest_crucible.store.spill_file import Rows
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import refer_to_texts, sanitize_text
from pytest_crucible.store.written_rows import TABLES, WrittenRows

INTERVAL_S = 0.25
"""Seconds between commits."""
MAX_WAIT_S = 0.5
"""Seconds after which a waiting row pauses the sampling: with the time of a commit, a killed process loses at most a second."""
COMMIT_ROWS = 1_000
"""Rows that are committed before the interval is over: in small parts, because each commit slows the sampling down."""
MAX_WAITING_ROWS = 10_000
"""Waiting rows that pause the sampling."""

Row = dict[str, Any]


@dataclass(slots=True)
class _Batch:
    """Rows that are committed together."""

    rows: defaultdict[Table, list[Row]] = field(default_factory=lambda: defaultdict(list))
    keyed: dict[tuple[Table, bool], dict[str, Row]] = field(default_factory=dict)
    """By table and whether they replace stored rows, and then by key."""
    events: list[tuple[str, Event]] = field(default_factory=list)
    """With the run of each. The thread turns them into rows, so that the sampling loop does not wait for it."""
    calls: list[StoredUnit] = field(default_factory=list)
    """Units with the calls that they made, likewise."""
    feature_rows: list[FeatureUnit] = field(default_factory=list)
    """Units with the rows of features about them, likewise."""
    removed: list[Row] = field(default_factory=list)
    """Places of copied units, whose rows are deleted before others are written."""
    count: int = 0
    since: float = math.inf
    """When the first row was added."""

    def tables(self) -> list[Rows]:
        """Return the rows by table, in the order of their keys, and whether they replace stored rows.

        Long texts come first, keyed rows last.
        """
        # Other processes may be writing the same keys: all write in one order of tables and keys, or they would deadlock.
        # And rows in the order of their keys are stored faster.
        by_name = sorted(self.rows.items(), key=lambda item: item[0].name)
        unkeyed = [(table, False, _in_order(table, many)) for table, many in by_name if many]
        keyed = sorted(self.keyed.items(), key=lambda item: (item[0][0].name, item[0][1]))
        rest = ((table, over, [rows[key] for key in sorted(rows)]) for (table, over), rows in keyed)
        return refer_to_texts([*unkeyed, *rest])


class Writer:
    """Writes outcomes from any thread. The error of a failed write is raised by the next `add` and by `close`.

    Rows that are added after a failure go to the same spill file: their replies were paid for.
    """

    def __init__(
        self,
        database: Database,
        location: str,
        hide: Callable[[str], str],
        keep: Callable[[Sequence[Rows]], Path | None],
        run: Callable[[], str] = str,
        hide_id: Callable[[str], str] = str,
        written: WrittenRows | None = None,
        *,
        stores_texts: bool = True,
    ) -> None:
        """`hide` redacts each text, `hide_id` ids; `keep` writes a spill file; `run` returns the id of the current run.

        `written` receives the rows that are committed; `stores_texts` is that of `CallRows`; without it no rows of
        features about units are stored either.
        """
        self._database = database
        self._hide, self._hide_id = hide, hide_id
        self._keep = keep
        self._calls = CallRows(hide, run, stores_texts=stores_texts)
        self._stores_texts = stores_texts
        self._location = location
        self._written = written or WrittenRows()
        self._waiting, self._in_hand = _Batch(), _Batch()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._failure: StoreError | None = None
        self._thread = threading.Thread(target=self._run, name="crucible-writer", daemon=True)
        self._thread.start()

    def add(
        self,
        outcome: Outcome,
        arm: int,
        observations: Sequence[Observation],
        lost: Sequence[Lost],
    ) -> None:
        """Record one unit; `arm` is the arm's key. Raises StoreError if an earlier write failed."""
        with self._lock:
            rows = self._waiting.rows
            if not outcome.lost:
                rows[schema.replies].append(_reply_row(outcome, arm, self._hide))
            for observation in observations:
                rows[schema.observations].append(_observation_row(observation, arm, self._hide))
            for value in lost:
                rows[schema.lost].append(_lost_row(value, arm, self._hide))
            # Its messages refer to the sample.
            if outcome.calls and outcome.sample is not None:
                self._waiting.calls.append((arm, outcome, outcome.sample))
            if outcome.feature_rows and self._stores_texts:
                self._waiting.feature_rows.append((arm, outcome.unit, copy_rows(outcome.feature_rows)))
            self._count_added(1 + len(observations))
        self._raise_failure()

    def remove_copied(self, arm: int, position: int, repeat: int) -> None:
        """Delete the rows of a unit that was copied from another run: it is sent again."""
        with self._lock:
            self._waiting.removed.append({"arm": arm, "position": position, "epoch": repeat})
            self._count_added(1)

    def put(self, table: Table, row: Row, *, overwrite: bool = False) -> None:
        """Write a row of a table whose key is its first column; with `overwrite` it replaces a stored one.

        Raises StoreError if an earlier write failed.
        """
        key = row[table.names[0]]
        with self._lock:
            batch = self._waiting
            rows = batch.keyed.setdefault((table, overwrite), {})
            rows[key] = row if overwrite else rows.get(key, row)
            self._count_added(1)
        self._raise_failure()

    def tell(self, run: str, event: Event) -> None:
        """Write an event of a run. It never raises: `add` raises the error of a failed write."""
        with self._lock:
            self._waiting.events.append((run, event))
            self._count_added(1)

    def waiting(self, table: Table, key: str) -> Row | None:
        """Return a row that was put and is not committed yet; None if the database has it."""
        with self._lock:
            batches = (self._waiting, self._in_hand)
        for batch in batches:
            for (of, _), rows in batch.keyed.items():
                if of is table and key in rows:
                    return rows[key]
        return None

    def behind(self) -> bool:
        """Return whether a row waits for too long, or too many do: the sampling should pause.

        A busy loop keeps the thread from writing, because they share the interpreter lock.
        """
        oldest = min(self._waiting.since, self._in_hand.since)
        overdue = time.monotonic() - oldest > MAX_WAIT_S or self._waiting.count > MAX_WAITING_ROWS
        return self._failure is None and overdue

    def flush(self) -> None:
        """Commit every added row. Raises StoreError."""
        self._commit()
        self._raise_failure()

    def close(self) -> None:
        """Commit the rest and end the thread. Raises StoreError. Idempotent."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self.flush()

    def _count_added(self, rows: int) -> None:
        """Count added rows. The caller holds the lock."""
        batch = self._waiting
        if not batch.count:
            batch.since = time.monotonic()
        batch.count += rows
        # Once a batch: an event that is set for each further row takes longer than adding it.
        if batch.count - rows < COMMIT_ROWS <= batch.count:
            self._wake.set()

    def _raise_failure(self) -> None:
        """Raise the error of an earlier write."""
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        while not self._closing and not self._failure:
            self._wake.wait(INTERVAL_S)
            self._wake.clear()
            self._commit()

    def _commit(self) -> None:
        # A flush returns only when the thread's batch is written, too.
        with self._writing:
            with self._lock:
                self._in_hand, self._waiting = self._waiting, _Batch()
            if self._in_hand.count:
                self._try(self._in_hand)
            self._in_hand = _Batch()

    def _try(self, batch: _Batch) -> None:
        """Write a batch. After a failure, later batches go to the spill file: the database is not tried again."""
        try:
            self._add_late_rows(batch)
            if self._failure:
                self._keep(batch.tables())
                return
            with explain_errors(self._location):
                is_new = _write(self._database, self._location, batch)
            if is_new:
                self._written.add(batch.rows)
            else:
                self._written.discard()
        except Exception as error:  # nothing above this thread would see it: the session raises it
            message = (
                error if isinstance(error, StoreError) else f"run store {self._location!r} cannot take it: {error!r}"
            )
            self._failure = StoreError(f"{message} ({self._left(batch, error)})")

    def _add_late_rows(self, batch: _Batch) -> None:
        """Add the rows of events and calls, which need the time of this thread."""
        if batch.events:
            batch.rows[schema.events] = event_rows(batch.events, self._hide, self._hide_id)
        if batch.calls:
            batch.rows[schema.calls], batch.rows[schema.messages] = self._calls.rows(batch.calls)
        if batch.feature_rows:
            batch.rows.update(feature_rows(batch.feature_rows, self._hide))

    def _left(self, batch: _Batch, error: Exception) -> str:
        """Return where the rows are now. Rows that any database would refuse are not kept: the next run could not enter them."""
        tables = batch.tables()
        rows = quantity(sum(len(many) for _, _, many in tables), "row")
        # A damaged file raises a DatabaseError as such; rows that are invalid raise one of its subclasses.
        driver, cause = self._database.driver, error.__cause__
        is_database = isinstance(cause, driver.OperationalError) or type(cause) is driver.DatabaseError
        path = self._keep(tables) if is_database else None
        if path is None:
            return f"{rows} of this run not saved"
        return f"{rows} of this run kept in {str(path)!r}, from where the next run takes them"


def _in_order(table: Table, rows: list[Row]) -> list[Row]:
    """Return rows sorted by key; unsorted where the database assigns the keys."""
    return sorted(rows, key=itemgetter(*table.key)) if table.key[0] in rows[0] else rows


def _write(database: Database, location: str, batch: _Batch) -> bool:
    """Write a batch. Return whether all outcomes and events in it are new to the database."""
    is_new = True
    with database.begin() as connection:
        _check_arms(connection, location, batch)
        if batch.removed:
            _remove_units(connection, batch.removed)
        for table, overwrite, many in batch.tables():
            inserted = connection.insert(table, many, over=overwrite)
            is_new &= inserted == len(many) or table not in TABLES
    return is_new


def _check_arms(connection: Connection, location: str, batch: _Batch) -> None:
    """Raise StoreError for rows of arms that were deleted, and keep the others until the commit, as a foreign key would."""
    if connection.is_sqlite:
        return
    arms = {row["arm"] for table, many in batch.rows.items() if table.key[0] == "arm" for row in many}
    stored = set(connection.scalars("SELECT id FROM arms WHERE id IN (:arms) FOR KEY SHARE", arms=arms))
    if not arms <= stored:
        raise StoreError(
            f"run store {location!r} no longer has this run, which `crucible gc` has deleted: run it again"
        )


def _remove_units(connection: Connection, units: list[Row]) -> None:
    """Delete all rows of some units, and count them no longer as copied."""
    places: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for unit in units:
        places[unit["arm"], unit["epoch"]].append(unit["position"])
    for (arm, epoch), positions in places.items():
        for first in range(0, len(positions), BATCH_SIZE):
            _remove_part(connection, arm, epoch, positions[first : first + BATCH_SIZE])


def _remove_part(connection: Connection, arm: int, epoch: int, positions: list[int]) -> None:
    where, of = "arm = :arm AND epoch = :epoch AND position IN (:positions)", {"arm": arm, "epoch": epoch}
    for table in (schema.replies, schema.observations, schema.lost, schema.calls, *schema.unit_tables().values()):
        with connection.changing(table, where, **of, positions=positions):
            connection.execute(f"DELETE FROM {table.name} WHERE {where}", **of, positions=positions)
    fewer = """
        UPDATE arms SET
            reused_answers = reused_answers - :count,
            reused_from = CASE WHEN reused_answers > :count THEN reused_from END
        WHERE id = :arm
    """
    with connection.changing(schema.arms, "id = :arm", arm=arm):
        connection.execute(fewer, arm=arm, count=len(positions))


def _reply_row(outcome: Outcome, arm: int, hide: Callable[[str], str]) -> Row:
    reply = outcome.reply
    return {
        "arm": arm,
        "position": outcome.unit.position,
        "epoch": outcome.unit.repeat,
        "text": sanitize_text(hide(reply.text)) if reply else None,
        "input_tokens": reply.input_tokens if reply else None,
        "output_tokens": reply.output_tokens if reply else None,
        "latency_s": reply.latency_s if reply else None,
        "finish": finish_text(reply) if reply else None,
        "failure": outcome.failure,
        "skipped": outcome.skipped,
        "detail": _detail(outcome.detail, hide),
        "started": outcome.started,
    }


def _observation_row(observation: Observation, arm: int, hide: Callable[[str], str]) -> Row:
    is_label = isinstance(observation.value, str)
    return {
        "arm": arm,
        "position": observation.unit.position,
        "epoch": observation.unit.repeat,
        "metric": observation.metric,
        # SQLite returns -0.0 as 0.0.
        "value": None if observation.value is None or is_label else float(observation.value) + 0.0,
        "is_bool": isinstance(observation.value, bool),
        "label": sanitize_text(hide(str(observation.value))) if is_label else None,
        "reason": _detail(observation.reason, hide),
    }


def _lost_row(lost: Lost, arm: int, hide: Callable[[str], str]) -> Row:
    return {
        "arm": arm,
        "position": lost.unit.position,
        "epoch": lost.unit.repeat,
        "metric": lost.metric or "",
        "reason": lost.reason,
        "detail": _detail(lost.detail, hide),
    }


def _detail(text: str, hide: Callable[[str], str]) -> str | None:
    """Return a text as it is stored; None for an empty one, as most are."""
    return (sanitize_text(hide(text)) or None) if text else None


_ANSWERS = frozenset({"winner", "counts"})
"""Facts of a vote that hold answers of members."""


class Recorder:
    """Records the events of one run. Events before the run is in the store, such as those of training, wait for that.

    Events after the end are discarded: the writer is closed then.
    """

    ignores = NOT_STORED

    def __init__(self, run: str, *, stores_texts: bool = True) -> None:
        """Without `stores_texts`, answers in events are left out, as in `CallRows`."""
        self._run, self._stores_texts = run, stores_texts
        self._early: list[Event] = []
        self._keep: Emit = self._early.append

    def __call__(self, event: Event) -> None:
        if event.name in self.ignores:
            return
        if not self._stores_texts and event.name == "vote":
            event = replace(event, facts={name: fact for name, fact in event.facts.items() if name not in _ANSWERS})
        self._keep(event)

    def open(self, writer: Writer) -> None:
        """Write the waiting events, and from now on each event: the run is in the store."""
        self._keep = partial(writer.tell, self._run)
        for event in self._early:
            self._keep(event)
        self._early.clear()

    def close(self) -> None:
        """Stop writing. Call this before the writer is closed. Idempotent."""
        self._keep = _discard


def _discard(event: Event) -> None:
    """Ignore an event that came after the end."""
