"""Reads events back: counts, and the durations of requests and waits."""

from __future__ import annotations

from sqlalchemy import func, select

from pytest_crucible.records import BUDGET, ArmEvents, BudgetSpent
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.event_tally import COLUMNS, EventTally, Place
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import events

# Rows that are fetched at a time.
_PART = 500


def load_events(store: RunStore, run: str) -> dict[Place, ArmEvents]:
    """Return the counted events of each arm of a run."""
    of_run = events.c.run == run
    with explain_errors(store.location), store.engine.connect() as connection:
        count = select(func.count()).select_from(events).where(of_run)
        written = store.written.events(run, lambda: connection.execute(count).scalar_one())
        if written is not None:
            return written
        tally = EventTally()
        query = select(*(events.c[name] for name in COLUMNS)).where(of_run, events.c.experiment != "")
        for part in connection.execute(query.order_by(events.c.id)).partitions(_PART):
            for row in part:
                tally.add(row)
    return tally.by_arm()


def load_budgets(store: RunStore, run: str) -> tuple[BudgetSpent, ...]:
    """Return the amounts that a run and its experiments have spent of their budgets, by their latest event."""
    query = select(events.c.experiment, events.c.facts).where(events.c.run == run, events.c.name == BUDGET)
    with explain_errors(store.location), store.engine.connect() as connection:
        latest = {row.experiment: row.facts for row in connection.execute(query.order_by(events.c.at))}
    return tuple(BudgetSpent(experiment=experiment, **facts) for experiment, facts in latest.items())
