"""Values observed of an ensemble's reply besides its scores: consensus, cost, and each member's answer and scores.

`exact_match[v1]` is the metric `exact_match` of member `v1`'s reply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_crucible.metrics.definition import Metric, NotApplicable
from pytest_crucible.records import Lost, MetricFacts, Observation, Outcome, Reply, Sample, Value
from pytest_crucible.score import Scored, apply_metrics

CONSENSUS = MetricFacts(
    name="consensus", kind="bounded", low=0.0, high=1.0, version="1", of_ensemble=True, applies="reply"
)
COST = MetricFacts(
    name="cost_usd", kind="positive", direction="lower", low=0.0, high=math.inf, version="1", of_ensemble=True
)
INCOMPLETE = {"length": "the reply was cut at its length limit", "content_filter": "the reply was withheld"}
# Reasons for a reply without an answer.
UNDECIDED = {
    "abstained": "no member gave an answer",
    "tied": "the best answers are equally good",
    "divided": "the members do not agree enough",
}


def member_metric(metric: str, member: str) -> str:
    """Return the name of a metric of a member's reply.

    >>> member_metric("exact_match", "v1")
    'exact_match[v1]'
    """
    return f"{metric}[{member}]"


def ensemble_facts(facts: Iterable[MetricFacts], members: Iterable[str]) -> tuple[MetricFacts, ...]:
    """Return the facts of everything observed of an ensemble's replies in an experiment with these metrics."""
    names, metrics = tuple(members), tuple(facts)
    if not names:
        return ()
    used = {metric_facts.name for metric_facts in metrics}
    own = [metric_facts for metric_facts in (CONSENSUS, COST) if metric_facts.name not in used]
    answers = [MetricFacts(name=member_metric("answer", name), kind="text", of_ensemble=True) for name in names]
    scores = [_facts(metric_facts, name) for metric_facts in metrics for name in names]
    return (*own, *answers, *scores)


def ensemble_values(reply: Reply) -> Iterator[tuple[str, Value | None, str]]:
    """Yield name, value and reason of an ensemble reply's own values."""
    if reply.consensus is not None:
        yield CONSENSUS.name, reply.consensus, UNDECIDED.get(reply.finish, "")
    if reply.cost_usd is not None:
        yield COST.name, reply.cost_usd, ""
    for name, member_reply in reply.members.items():
        yield (
            member_metric("answer", name),
            member_reply.value,
            "" if member_reply.value is not None else "the member abstained",
        )


def member_score(metric: Metric, reply: Reply, sample: Sample) -> Any:
    """Score a member's reply. A truncated or filtered reply gets the worst value, as an arm's would, if there is one."""
    incomplete = INCOMPLETE.get(reply.finish)
    if incomplete is None:
        return metric.function(reply, sample)
    facts = metric.facts
    worst = facts.low if facts.direction == "higher" else facts.high
    if not math.isfinite(worst):
        return NotApplicable(incomplete)
    return bool(worst) if facts.kind == "binary" else worst


async def score_members(
    metrics: Sequence[Metric], outcome: Outcome, reply: Reply, sample: Sample, scored: Scored
) -> None:
    """Add an ensemble's own values, unless the suite scores them itself, and the metrics of each member's reply."""
    if not reply.members:
        return
    observations, lost = scored
    lost.extend(_lost_scores(metrics, outcome, reply))
    names = {score.metric for score in observations} | {score.metric for score in lost}
    observations.extend(Observation(outcome.unit, *own) for own in ensemble_values(reply) if own[0] not in names)
    for member, answered in reply.members.items():
        own_metrics = [_of_member(metric, member) for metric in metrics]
        await apply_metrics(own_metrics, outcome, answered, sample, scored)


def _lost_scores(metrics: Sequence[Metric], outcome: Outcome, reply: Reply) -> Iterator[Lost]:
    """Yield a lost score for every metric of a member that gave no reply."""
    for member, why in reply.lost_members.items():
        for metric in metrics:
            # A missing score would look inapplicable; a lost one leaves the member's targets undecided.
            yield Lost(outcome.unit, member_metric(metric.name, member), "member", f"member {member!r}: {why}")


def _of_member(metric: Metric, member: str) -> Metric:
    return replace(metric, function=partial(member_score, metric), facts=_facts(metric.facts, member))


def _facts(facts: MetricFacts, member: str) -> MetricFacts:
    return replace(facts, name=member_metric(facts.name, member), of_ensemble=True)
