"""Reads the usage of earlier runs of an experiment from their events."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import HELPERS
from pytest_crucible.store.runs import RunStore

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
