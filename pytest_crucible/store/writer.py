"""Durable writes outside of the sampling loop, which appends to lists that a thread commits several times a second."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from pytest_crucible.records import Emit, Event, Lost, Observation, Outcome
from pytest_crucible.records.errors import StoreError
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store import schema
from pytest_crucible.store.database import BATCH_SIZE, Connection, Database
from pytest_crucible.store.opening import explain_errors
from pytest_crucible.store.row_batch import OutcomeRows, Row, RowBatch
from pytest_crucible.store.rows import NOT_STORED
from pytest_crucible.store.spill_file import Rows
from pytest_crucible.store.table import Table
from pytest_crucible.store.written_rows import TABLES, WrittenRows

INTERVAL_S = 0.25
"""Seconds between commits."""
MAX_WAIT_S = 0.5
"""Seconds after which a waiting row pauses the sampling: with the time of a commit, a killed process loses at most a second."""
COMMIT_ROWS = 1_000
"""Rows that are committed before the interval is over: in small parts, because each commit slows the sampling down."""
MAX_WAITING_ROWS = 10_000
"""Waiting rows that pause the sampling."""


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

        `written` receives the rows that are committed; `stores_texts` is that of `OutcomeRows`.
        """
        self._database = database
        self._keep = keep
        self._rows = OutcomeRows(hide, run, hide_id, stores_texts=stores_texts)
        self._location = location
        self._written = written or WrittenRows()
        self._waiting, self._in_hand = RowBatch(), RowBatch()
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
            self._rows.add(self._waiting, outcome, arm, observations, lost)
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
        with self._lock:
            self._waiting.put(table, row, overwrite=overwrite)
            self._count_added(1)
        self._raise_failure()

    def add_tables(self, tables: Sequence[Rows]) -> None:
        """Write what another process has made of outcomes, in one transaction. Raises StoreError if an earlier write failed."""
        with self._lock:
            self._count_added(self._waiting.add_tables(tables))
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
                self._in_hand, self._waiting = self._waiting, RowBatch()
            if self._in_hand.count:
                self._try(self._in_hand)
            self._in_hand = RowBatch()

    def _try(self, batch: RowBatch) -> None:
        """Write a batch. After a failure, later batches go to the spill file: the database is not tried again."""
        try:
            self._rows.add_late_rows(batch)
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

    def _left(self, batch: RowBatch, error: Exception) -> str:
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


def _write(database: Database, location: str, batch: RowBatch) -> bool:
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


def _check_arms(connection: Connection, location: str, batch: RowBatch) -> None:
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


_ANSWERS = frozenset({"winner", "counts"})
"""Facts of a vote that hold answers of members."""


class EventWriter(Protocol):
    """Writes events: the store's writer, and in a worker of a cluster the rows of its blocks."""

    def tell(self, run: str, event: Event) -> None:
        """Write an event of a run."""


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

    def open(self, writer: EventWriter) -> None:
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
