"""Reads events back: counts, durations, budgets, and the usage of earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_crucible.records import BUDGET, HELPERS, ArmEvents, BudgetSpent, EventCount
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
    query = """
        SELECT runs.id, runs.started FROM runs JOIN experiments ON experiments.run = runs.id
        WHERE experiments.nodeid = :nodeid ORDER BY experiments.id DESC LIMIT :runs
    """
    earlier = list(store.rows(query, nodeid=nodeid, runs=_RUNS))
    usages = [usage for run, started in earlier for usage in _usages(store, run, started, nodeid)]
    ours = (usage for usage in usages if usage.arm == arm)
    others = (usage for usage in usages if not usage.arm.startswith(HELPERS))
    return next(ours, None) or (None if arm.startswith(HELPERS) else next(others, None))


def judges_of(store: RunStore, nodeid: str) -> list[str]:
    """Return the judges, and the models that rewrite texts, that an experiment has queried, as arms of its events."""
    query = "SELECT DISTINCT arm FROM events WHERE experiment = :nodeid"
    return sorted(arm for arm in store.scalars(query, nodeid=nodeid) if arm.startswith(HELPERS))


def judge_requests_of(store: RunStore, run: str, nodeid: str) -> int:
    """Return how many requests to the judge the metrics of an experiment of a run took for each reply; 0 if that is unknown."""
    return next((plan.judge_requests for _, plan, _ in store.experiments(run) if plan.nodeid == nodeid), 0)


def _usages(store: RunStore, run: str, started: str, nodeid: str) -> list[PastUsage]:
    query = """
        SELECT
            arm,
            COUNT(*),
            SUM(input_tokens),
            SUM(output_tokens),
            CASE WHEN COUNT(*) = COUNT(cost_usd) THEN SUM(cost_usd) END,
            SUM(COALESCE(seconds, 0.0))
        FROM events WHERE run = :run AND experiment = :nodeid AND name = 'request.stop'
        GROUP BY arm, sample, epoch
    """
    by_arm: dict[str, list[ReplyUsage]] = {}
    for arm, *sums in store.rows(query, run=run, nodeid=nodeid):
        by_arm.setdefault(arm, []).append(ReplyUsage(*sums))
    return [PastUsage(run, started, arm, replies) for arm, replies in by_arm.items()]
