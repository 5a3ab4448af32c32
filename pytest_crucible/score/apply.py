"""Observations from an outcome: each metric is applied once, and its value is checked before it is stored."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.metrics.definition import Metric, NotApplicable
from pytest_crucible.metrics.ensemble_members import ensemble_values, member_metric, member_score
from pytest_crucible.records import (
    UNEXPLAINED,
    Lost,
    MetricFacts,
    Observation,
    Outcome,
    Reasoning,
    Reply,
    Sample,
    Value,
)
from pytest_crucible.records.errors import Refused, Spent, Uncached
from pytest_crucible.records.type_names import describe_type
from pytest_crucible.score.answer import scored_reply


class BadScore(ValueError):
    """An invalid score; the message has the value and the expected values."""


Scored = tuple[list[Observation], list[Lost]]


def own_scores(outcome: Outcome, *, passed: bool) -> Scored:
    """Return the scores that the test function gave itself, and with `passed` also whether it passed.

    A lost outcome has no scores. A failed one keeps those given before it failed; the analysis, which knows the metric's
    kind, fills in the worst value of every other metric.
    """
    if outcome.lost:
        return [], [_lost(outcome, None, outcome.detail)]
    observations = [Observation(outcome.unit, *pair) for pair in outcome.scores.items()]
    if passed and not outcome.skipped and "passed" not in outcome.scores:
        observations.append(_observation(outcome, "passed", outcome.failure is None))
    return observations, []


async def score_outcome(
    outcome: Outcome, metrics: Sequence[Metric], sample: Sample, *, passed: bool, reasoning: Reasoning = "strip"
) -> Scored:
    """Return all scores of one outcome: those of the test function, and those of the metrics.

    Metrics see the reply without its reasoning, unless `reasoning` is "keep".
    Where a metric's model is out of budget, the run was interrupted: the sample is lost, and a resumed run scores it.
    Raises Refused if a metric's model would refuse every request.
    """
    passed = passed and all(metric.name != "passed" for metric in metrics)
    observations, lost = own_scores(outcome, passed=passed)
    reply = outcome.reply
    if reply is None or outcome.lost or outcome.skipped or outcome.failure:
        return observations, lost
    reply = scored_reply(reply, reasoning)
    try:
        await _apply_metrics(metrics, outcome, reply, sample, observations, lost)
        if reply.members:
            lost.extend(_lost_member_scores(metrics, outcome, reply))
            await _apply_to_members(metrics, outcome, reply, sample, observations, lost)
    except (Spent, Uncached) as error:
        outcome.lost, outcome.detail = "budget" if isinstance(error, Spent) else "uncached", str(error)
        return own_scores(outcome, passed=passed)
    return observations, lost


async def _apply_metrics(
    metrics: Sequence[Metric],
    outcome: Outcome,
    reply: Reply,
    sample: Sample,
    observations: list[Observation],
    lost: list[Lost],
    member: str = "",
) -> None:
    for metric in metrics:
        name = member_metric(metric.name, member) if member else metric.name
        try:
            value = member_score(metric, reply, sample) if member else metric.function(reply, sample)
            if inspect.isawaitable(value):
                value = await value
            observations.append(_observation(outcome, name, *check_score(value, metric.facts)))
        except (Refused, Spent, Uncached):
            raise
        except Exception as error:
            # an error of the scorer is not an error of the model
            lost.append(_lost(outcome, name, _describe_error(error, name)))


async def _apply_to_members(
    metrics: Sequence[Metric],
    outcome: Outcome,
    reply: Reply,
    sample: Sample,
    observations: list[Observation],
    lost: list[Lost],
) -> None:
    """Add the ensemble's own values, unless the suite scores them itself, and the metrics of each member's reply."""
    scored_names = {score.metric for score in observations} | {score.metric for score in lost}
    observations.extend(
        _observation(outcome, *value) for value in ensemble_values(reply) if value[0] not in scored_names
    )
    for member, answered in reply.members.items():
        await _apply_metrics(metrics, outcome, answered, sample, observations, lost, member)


def _lost_member_scores(metrics: Sequence[Metric], outcome: Outcome, reply: Reply) -> Iterator[Lost]:
    """Yield a lost score for every metric of a member that gave no reply."""
    for member, why in reply.lost_members.items():
        for metric in metrics:
            # A missing score would look inapplicable; a lost one leaves the member's targets undecided.
            name = member_metric(metric.name, member)
            yield Lost(outcome.unit, name, "member", f"member {member!r}: {why}")


def check_score(value: Any, facts: MetricFacts) -> tuple[Value | None, str]:
    """Return a value that can be stored and counted, with the reason when it is None.

    Raises BadScore for NaN, infinities, values outside the declared bounds and other types.
    """
    # Before the numbers: a bool is an int, but it makes the metric a yes-or-no metric.
    if value is True or value is False:
        return value, ""
    if value is None:
        return None, UNEXPLAINED
    if isinstance(value, NotApplicable):
        return None, value.reason
    # a numpy scalar: it can be neither stored nor sent
    if hasattr(value, "item") and not isinstance(value, str):
        return check_score(value.item(), facts)
    if isinstance(value, str):
        if facts.kind == "text":
            return value, ""
        raise BadScore(f"returned the string {value!r:.60}: return a boolean, a number or None, or declare kind='text'")
    if not isinstance(value, int | float):
        raise BadScore(f"returned {describe_type(value)}: return a boolean, a number or None")
    if facts.kind == "binary" and value not in (0, 1):
        raise BadScore(f"returned {value:g}: a binary metric is True or False; declare bounds for a graded one")
    return _within(float(value), facts), ""


def _within(value: float, facts: MetricFacts) -> float:
    if not math.isfinite(value):
        raise BadScore(f"returned {value}: a score is a finite number; return None where the metric does not apply")
    if not facts.low <= value <= facts.high:
        raise BadScore(
            f"returned {value:g}, outside its bounds [{facts.low:g}, {facts.high:g}]: correct the metric or its bounds"
        )
    return value


def _observation(outcome: Outcome, metric: str, value: Value | None, reason: str = "") -> Observation:
    return Observation(outcome.unit, metric, value, reason)


def _lost(outcome: Outcome, metric: str | None, detail: str) -> Lost:
    reason = outcome.lost or "scorer"
    return Lost(outcome.unit, metric, reason, detail)


def _describe_error(error: Exception, metric: str) -> str:
    verb = str(error) if isinstance(error, BadScore) else f"raised {type(error).__name__}: {error}"
    return f"metric {metric!r} {verb}"
