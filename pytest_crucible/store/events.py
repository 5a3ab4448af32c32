"""Reads events back: counts, durations, budgets, and the usage of earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, func, or_, select

from pytest_crucible.records import BUDGET, HELPERS, ArmEvents, BudgetSpent
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import events, experiments, runs
from pytest_crucible.store.written_rows import COLUMNS, EventTally, Place

# Rows that are fetched at a time.
_PART = 500


def load_events(store: RunStore, run: str) -> dict[Place, ArmEvents]:
    """Return the counted events of each arm of a run."""
    of_run = events.c.run == run
    with store.connect() as connection:
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
    latest = {row.experiment: row.facts for row in store.rows(query.order_by(events.c.at))}
    return tuple(BudgetSpent(experiment=experiment, **facts) for experiment, facts in latest.items())


# Runs of cached or stored replies sent nothing: how far to look back for one that did.
_RUNS = 20


@dataclass(frozen=True, slots=True)
class ReplyUsage:
    """The usage of one reply, over all of its requests."""

    requests: int
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    """None if the price of some request is not known."""
    seconds: float


@dataclass(frozen=True, slots=True)
class PastUsage:
    """The usage of an arm's replies in its latest run that sent requests."""

    run: str
    started: str
    arm: str
    replies: Sequence[ReplyUsage]


def past_usage(store: RunStore, nodeid: str, arm: str) -> PastUsage | None:
    """Return the usage of an arm of an experiment, or else of another arm; None if no run sent a request."""
    query = (
        select(runs.c.id, runs.c.started)
        .join(experiments, experiments.c.run == runs.c.id)
        .where(experiments.c.nodeid == nodeid)
        .order_by(experiments.c.id.desc())
        .limit(_RUNS)
    )
    earlier = list(store.rows(query))
    usages = [usage for run, started in earlier for usage in _usages(store, run, started, nodeid)]
    ours = (usage for usage in usages if usage.arm == arm)
    others = (usage for usage in usages if not usage.arm.startswith(HELPERS))
    return next(ours, None) or (None if arm.startswith(HELPERS) else next(others, None))


def judges_of(store: RunStore, nodeid: str) -> list[str]:
    """Return the judges, and the models that rewrite texts, that an experiment has queried, as arms of its events."""
    of_helpers = or_(*(events.c.arm.startswith(prefix) for prefix in HELPERS))
    query = select(events.c.arm).distinct().where(events.c.experiment == nodeid, of_helpers)
    return sorted(store.scalars(query))


def judge_requests_of(store: RunStore, run: str, nodeid: str) -> int:
    """Return how many requests to the judge the metrics of an experiment of a run took for each reply; 0 if that is unknown."""
    return next((plan.judge_requests for _, plan, _ in store.experiments(run) if plan.nodeid == nodeid), 0)


def _usages(store: RunStore, run: str, started: str, nodeid: str) -> list[PastUsage]:
    table = events.c
    query = (
        select(
            table.arm,
            func.count(),
            func.sum(table.input_tokens),
            func.sum(table.output_tokens),
            case((func.count() == func.count(table.cost_usd), func.sum(table.cost_usd)), else_=None),
            func.sum(func.coalesce(table.seconds, 0.0)),
        )
        .where(table.run == run, table.experiment == nodeid, table.name == "request.stop")
        .group_by(table.arm, table.sample, table.epoch)
    )
    by_arm: dict[str, list[ReplyUsage]] = {}
    for arm, *sums in store.rows(query):
        by_arm.setdefault(arm, []).append(ReplyUsage(*sums))
    return [PastUsage(run, started, arm, replies) for arm, replies in by_arm.items()]
