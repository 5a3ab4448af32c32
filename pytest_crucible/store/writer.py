"""Durable writes off the hot path: the sampling loop appends to lists, a thread commits them several times a second."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, Table

from pytest_crucible.errors import StoreError
from pytest_crucible.records import Lost, Observation, Outcome
from pytest_crucible.store import schema
from pytest_crucible.store.opening import explained, insert_once

INTERVAL_S = 0.25
"""How often rows are committed."""
BEHIND_S = 0.5
"""A row that has waited for longer holds up the sampling: with the time of a commit, a killed process loses a second."""
AT_ONCE = 5_000
"""Rows that are enough to commit before the interval is over."""

Row = dict[str, Any]


@dataclass(slots=True)
class _Batch:
    """Rows that are committed together."""

    rows: dict[Table, list[Row]] = field(default_factory=dict)
    count: int = 0
    since: float = math.inf
    """When the first row was added."""


class Writer:
    """Takes outcomes from any thread. A write that failed for good is raised by the next `add` and by `close`."""

    def __init__(self, engine: Engine, location: str) -> None:
        self._engine = engine
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
        if self._failure:
            raise self._failure
        with self._lock:
            batch = self._waiting
            if not outcome.lost:
                batch.rows.setdefault(schema.replies, []).append(_reply_row(outcome, arm))
            batch.rows.setdefault(schema.observations, []).extend(_observation_row(one, arm) for one in observations)
            batch.rows.setdefault(schema.lost, []).extend(_lost_row(one, arm) for one in lost)
            batch.count += 1 + len(observations)
            batch.since = min(batch.since, time.monotonic())
        if batch.count >= AT_ONCE:
            self._wake.set()

    def behind(self) -> bool:
        """Has some row waited for too long, or do too many? Then ask nothing more for a moment.

        A busy loop keeps the thread from writing: they share one interpreter lock.
        """
        oldest = min(self._waiting.since, self._in_hand.since)
        overdue = time.monotonic() - oldest > BEHIND_S or self._waiting.count > 2 * AT_ONCE
        return self._failure is None and overdue

    def flush(self) -> None:
        """Commit everything that was added. Raises StoreError."""
        self._commit()
        if self._failure:
            raise self._failure

    def close(self) -> None:
        """Commit the rest and end the thread. Raises StoreError. Idempotent."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self.flush()

    def _run(self) -> None:
        while not self._closing and not self._failure:
            self._wake.wait(INTERVAL_S)
            self._wake.clear()
            self._commit()

    def _commit(self) -> None:
        with self._writing:  # a flush returns only when the rows that the thread had taken are written too
            with self._lock:
                self._in_hand, self._waiting = self._waiting, _Batch()
            if self._in_hand.count and not self._failure:
                self._try(self._in_hand.rows)
            self._in_hand = _Batch()

    def _try(self, rows: dict[Table, list[Row]]) -> None:
        try:
            with explained(self._location):
                _write(self._engine, rows.items())
        except Exception as error:  # whatever it is, it must reach the session, and this thread has nobody above it
            said = error if isinstance(error, StoreError) else f"run store {self._location!r} cannot take it: {error!r}"
            unsaved = sum(map(len, rows.values()))
            self._failure = StoreError(f"{said} ({unsaved} rows of this run are not saved)")


def _write(engine: Engine, rows: Iterable[tuple[Table, list[Row]]]) -> None:
    with engine.begin() as connection:
        for table, many in rows:
            if many:
                connection.execute(insert_once(engine, table), many)


def _reply_row(outcome: Outcome, arm: int) -> Row:
    reply = outcome.reply
    return {
        "arm": arm,
        "position": outcome.position,
        "epoch": outcome.epoch,
        "text": _storable(reply.text) if reply else None,
        "input_tokens": reply.input_tokens if reply else None,
        "output_tokens": reply.output_tokens if reply else None,
        "latency_s": reply.latency_s if reply else None,
        "finish": reply.finish if reply else None,
        "failure": outcome.failure,
        "skipped": outcome.skipped,
        "detail": _storable(outcome.detail) or None,
        "started": outcome.started,
    }


def _observation_row(one: Observation, arm: int) -> Row:
    is_label = isinstance(one.value, str)
    return {
        "arm": arm,
        "position": one.position,
        "epoch": one.epoch,
        "metric": one.metric,
        "value": None if one.value is None or is_label else float(one.value),
        "is_bool": isinstance(one.value, bool),
        "label": _storable(str(one.value)) if is_label else None,
        "reason": _storable(one.reason) or None,
    }


def _lost_row(one: Lost, arm: int) -> Row:
    return {
        "arm": arm,
        "position": one.position,
        "epoch": one.epoch,
        "metric": one.metric or "",
        "reason": one.reason,
        "detail": _storable(one.detail) or None,
    }


def _storable(text: str) -> str:
    """Without what databases refuse and a JSON answer may yet contain: NUL, and one half of a surrogate pair."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\0", "\ufffd")
