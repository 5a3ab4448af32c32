"""Reads the course of a run's events: their numbers and durations in each part of its time."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BUDGET
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True)
class EventsOfTime:
    """The events of a run that ended within one part of its time."""

    number: int
    """From 0."""
    answered: int
    failed: int
    retried: int
    hedged: int
    cached: int
    latency: float | None
    """The mean seconds of the answered requests."""
    first_token: float | None
    waited: float | None
    """The mean seconds of the waits for a turn."""


@dataclass(frozen=True, slots=True)
class EventCourse:
    """The course of a run's events."""

    width: float
    """Seconds of each part."""
    parts: Sequence[EventsOfTime]


def event_course(store: RunStore, run: str, parts: int) -> EventCourse | None:
    """Return the events of a run in equal parts of its time, counted by the database; None without any."""
    of_run = "FROM events WHERE run = :run AND experiment <> '' AND name <> :budget"
    with store.connect() as connection:
        first, last = connection.first(f"SELECT MIN(at), MAX(at) {of_run}", run=run, budget=BUDGET)
        if first is None:
            return None
        width = max((last - first) / parts, 1e-3)
        place = "(at - :first) / :width"
        # PostgreSQL rounds in a cast, and not every SQLite has FLOOR.
        number = f"CAST({place} AS INTEGER)" if store.database.is_sqlite else f"CAST(FLOOR({place}) AS INTEGER)"
        query = f"""
            SELECT {number} AS number,
                SUM(CASE WHEN name = 'request.stop' AND error IS NULL THEN 1 ELSE 0 END),
                SUM(CASE WHEN name = 'request.stop' AND error <> 'cancelled' THEN 1 ELSE 0 END),
                SUM(CASE WHEN name = 'request.retry' THEN 1 ELSE 0 END),
                SUM(CASE WHEN name = 'hedge.fired' THEN 1 ELSE 0 END),
                SUM(CASE WHEN name = 'cache.hit' THEN 1 ELSE 0 END),
                AVG(CASE WHEN name = 'request.stop' AND error IS NULL THEN seconds END),
                AVG(CASE WHEN error IS NULL THEN first_token_s END),
                AVG(CASE WHEN name = 'limiter.wait' THEN seconds END)
            {of_run} GROUP BY number ORDER BY number
        """
        rows = connection.execute(query, run=run, budget=BUDGET, first=first, width=width)
        return EventCourse(width, [EventsOfTime(*row) for row in rows])
