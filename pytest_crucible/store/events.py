"""Reads events back: counts by the database, and the durations of requests and waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, or_, select

from pytest_crucible.records import BUDGET, ArmEvents, BudgetSpent, EventCount
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import events

# Rows that are fetched at a time.
_PART = 500
Place = tuple[str, str]
"""Nodeid of the experiment, name of the arm."""


def load_events(store: RunStore, run: str) -> dict[Place, ArmEvents]:
    """Return the counted events of each arm of a run."""
    with explain_errors(store.location), store.engine.connect() as connection:
        counts = _counts(connection, run)
        by_arm = {place: ArmEvents(counts=tuple(of_arm)) for place, of_arm in counts.items()}
        _read_durations(connection, run, by_arm)
    return by_arm


def load_budgets(store: RunStore, run: str) -> tuple[BudgetSpent, ...]:
    """Return the amounts that a run and its experiments have spent of their budgets, by their latest event."""
    query = select(events.c.experiment, events.c.facts).where(events.c.run == run, events.c.name == BUDGET)
    with explain_errors(store.location), store.engine.connect() as connection:
        latest = {row.experiment: row.facts for row in connection.execute(query.order_by(events.c.at))}
    return tuple(BudgetSpent(experiment=experiment, **facts) for experiment, facts in latest.items())


def _counts(connection: Any, run: str) -> Mapping[Place, list[EventCount]]:
    table = events.c
    kinds = (table.experiment, table.arm, table.name, table.error)
    query = select(
        *kinds,
        func.count(),
        func.count(func.coalesce(table.input_tokens, table.output_tokens)),
        func.sum(table.input_tokens),
        func.sum(table.output_tokens),
        func.count(table.cost_usd),
        func.sum(table.cost_usd),
        func.min(table.at - func.coalesce(table.seconds, 0.0)),
        func.max(table.at),
    )
    counts: dict[Place, list[EventCount]] = defaultdict(list)
    for row in connection.execute(
        query.where(table.run == run, table.experiment != "", table.name != BUDGET).group_by(*kinds)
    ):
        experiment, arm, name, error, n, counted, inputs, outputs, priced, cost, first, last = row
        count = EventCount(
            name=name, error=error, n=n, counted=counted, input_tokens=inputs, output_tokens=outputs, priced=priced,
            cost_usd=cost, first=first, last=last,
        )  # fmt: skip
        counts[experiment, arm].append(count)
    return counts


def _read_durations(connection: Any, run: str, by_arm: Mapping[Place, ArmEvents]) -> None:
    table = events.c
    answered = (table.name == "request.stop") & table.error.is_(None)
    query = select(table.experiment, table.arm, table.name, table.seconds, table.first_token_s)
    query = query.where(table.run == run, table.seconds.is_not(None), or_(answered, table.name == "limiter.wait"))
    for part in connection.execute(query).partitions(_PART):
        for experiment, arm, name, seconds, first_token in part:
            events_of_arm = by_arm.get((experiment, arm))
            # Of no experiment, or written after the counting.
            if events_of_arm is None:
                continue
            (events_of_arm.latencies if name == "request.stop" else events_of_arm.waits).append(seconds)
            if first_token is not None:
                events_of_arm.first_tokens.append(first_token)
