"""What is observed of an ensemble's reply besides its own scores: consensus, cost, and each member's answer and scores.

`exact_match[v1]` is the metric `exact_match` of what member `v1` answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pytest_crucible.metrics.definition import Metric, NotApplicable
from pytest_crucible.records import MetricFacts, Reply, Sample, Value

CONSENSUS = MetricFacts(name="consensus", kind="bounded", low=0.0, high=1.0, version="1", of_ensemble=True)
COST = MetricFacts(
    name="cost_usd", kind="positive", direction="lower", low=0.0, high=math.inf, version="1", of_ensemble=True
)
CUT = {"length": "the reply was cut at its length limit", "content_filter": "the reply was withheld"}
UNDECIDED = {
    "abstained": "no member gave an answer",
    "tied": "the best answers are equally good",
    "divided": "the members do not agree enough",
}
"""How a reply without an answer ends, in words."""


def of_member(metric: str, member: str) -> str:
    """The name of a member's metric.

    >>> of_member("exact_match", "v1")
    'exact_match[v1]'
    """
    return f"{metric}[{member}]"


def facts_of_ensemble(facts: Iterable[MetricFacts], members: Iterable[str]) -> tuple[MetricFacts, ...]:
    """All that is observed of an ensemble's replies in an experiment with these metrics."""
    names, known = tuple(members), tuple(facts)
    if not names:
        return ()
    taken = {one.name for one in known}
    own = [one for one in (CONSENSUS, COST) if one.name not in taken]
    answers = [MetricFacts(name=of_member("answer", name), kind="text", of_ensemble=True) for name in names]
    scores = [_facts(one, name) for one in known for name in names]
    return (*own, *answers, *scores)


def observed(reply: Reply) -> Iterator[tuple[str, Value | None, str]]:
    """Name, value and reason of what an ensemble's reply says by itself."""
    if reply.consensus is not None:
        yield CONSENSUS.name, reply.consensus, UNDECIDED.get(reply.finish, "")
    if reply.cost_usd is not None:
        yield COST.name, reply.cost_usd, ""
    for name, answered in reply.members.items():
        yield of_member("answer", name), answered.value, "" if answered.value is not None else "the member abstained"


def member_score(metric: Metric, reply: Reply, sample: Sample) -> Any:
    """A metric of a member's reply. One that was cut short is worth what a failed arm is, where that is known."""
    why = CUT.get(reply.finish)
    if why is None:
        return metric.function(reply, sample)
    facts = metric.facts
    worst = facts.low if facts.direction == "higher" else facts.high
    if not math.isfinite(worst):
        return NotApplicable(why)
    return bool(worst) if facts.kind == "binary" else worst


def _facts(facts: MetricFacts, member: str) -> MetricFacts:
    return replace(facts, name=of_member(facts.name, member), of_ensemble=True)
