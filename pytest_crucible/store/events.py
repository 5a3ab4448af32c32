"""Reads events back: counts, durations, budgets and losses."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import BUDGET, ArmEvents, BudgetSpent, EventCount
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.written_rows import COLUMNS, EventTally, Place

# Rows that are fetched at a time.
_PART = 500


def load_events(store: RunStore, run: str) -> dict[Place, ArmEvents]:
    """Return the counted events of each arm of a run."""
    count = "SELECT COUNT(*) FROM events WHERE run = :run"
    with store.connect() as connection:
        written = store.written.events(run, lambda: int(connection.scalar(count, run=run)))
        if written is not None:
            return written
        tally = EventTally()
        query = f"SELECT {', '.join(COLUMNS)} FROM events WHERE run = :run AND experiment <> '' ORDER BY id"
        cursor = connection.execute(query, run=run)
        while part := cursor.fetchmany(_PART):
            for row in part:
                tally.add(row)
    return tally.by_arm()


def count_events(store: RunStore, run: str) -> dict[Place, ArmEvents]:
    """Return the counted events of each arm of a run without their durations, counted by the database."""
    query = """
        SELECT experiment, arm, name, error, COUNT(*), SUM(CASE WHEN input_tokens IS NULL AND output_tokens IS NULL
            THEN 0 ELSE 1 END), SUM(input_tokens), SUM(output_tokens), COUNT(cost_usd), SUM(cost_usd),
            MIN(at - COALESCE(seconds, 0.0)), MAX(at)
        FROM events WHERE run = :run AND experiment <> '' AND name <> :budget
        GROUP BY experiment, arm, name, error ORDER BY experiment, arm, name, error
    """
    counts: dict[Place, list[EventCount]] = {}
    for experiment, arm, *values in store.rows(query, run=run, budget=BUDGET):
        names = "name error n counted input_tokens output_tokens priced cost_usd first last".split()
        count = EventCount(**dict(zip(names, values, strict=True)))
        counts.setdefault((experiment, arm), []).append(count)
    return {place: ArmEvents(counts=tuple(of_arm)) for place, of_arm in counts.items()}


def lost_replies(store: RunStore, run: str) -> Sequence[tuple[str, str, str, str, int]]:
    """Return (experiment, arm, reason, detail, number) of the replies and scores that were lost, the most frequent first."""
    query = """
        SELECT experiments.nodeid, arms.name, lost.reason, lost.detail, COUNT(*) AS number
        FROM experiments JOIN arms ON arms.experiment = experiments.id JOIN lost ON lost.arm = arms.id
        WHERE experiments.run = :run
        GROUP BY experiments.nodeid, arms.name, lost.reason, lost.detail ORDER BY number DESC LIMIT :most
    """
    return list(store.rows(query, run=run, most=MOST_REASONS))


MOST_REASONS = 50
"""Each request may have failed with a detail of its own."""


def load_budgets(store: RunStore, run: str) -> tuple[BudgetSpent, ...]:
    """Return the amounts that a run and its experiments have spent of their budgets, by their latest event."""
    query = "SELECT experiment, facts FROM events WHERE run = :run AND name = :budget ORDER BY at"
    latest = dict(store.rows(query, run=run, budget=BUDGET))
    return tuple(BudgetSpent(experiment=experiment, **from_json(facts)) for experiment, facts in latest.items())
