"""From an outcome to observations: each metric is asked once, and what it answers is checked before it is believed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.errors import Refused, Spent, Uncached
from pytest_crucible.metrics.definition import Metric, NotApplicable
from pytest_crucible.metrics.members import member_score, observed, of_member
from pytest_crucible.records import UNEXPLAINED, Lost, MetricFacts, Observation, Outcome, Reply, Sample, Value


class BadScore(ValueError):
    """A value that is no score; the message says what was given and what is wanted."""


Judged = tuple[list[Observation], list[Lost]]


def own_scores(outcome: Outcome, *, passed: bool) -> Judged:
    """What the test function scored itself. With `passed`, whether it passed is a score of its own.

    A lost outcome says nothing. A failed one keeps what was scored before it failed; the worst value of every other metric
    is filled in by the analysis, which knows the metric's kind.
    """
    if outcome.lost:
        return [], [_lost(outcome, None, outcome.detail)]
    observations = [Observation(outcome.arm, outcome.position, outcome.epoch, *pair) for pair in outcome.scores.items()]
    if passed and not outcome.skipped and "passed" not in outcome.scores:
        observations.append(_observed(outcome, "passed", outcome.failure is None))
    return observations, []


async def judge(outcome: Outcome, metrics: Sequence[Metric], sample: Sample, *, passed: bool) -> Judged:
    """All that one outcome says: what the function scored itself, and what the metrics make of the reply.

    A metric that asks a model and may ask no more says that the run was cut short: the sample is lost, and a resumed run goes
    on with it. Raises Refused where a metric's model would refuse every question.
    """
    passed = passed and all(one.name != "passed" for one in metrics)
    observations, lost = own_scores(outcome, passed=passed)
    reply = outcome.reply
    if reply is None or outcome.lost or outcome.skipped or outcome.failure:
        return observations, lost
    try:
        await _ask(metrics, outcome, reply, sample, observations, lost)
        if reply.members:
            lost.extend(_of_lost_members(metrics, outcome, reply))
            await _ask_members(metrics, outcome, reply, sample, observations, lost)
    except (Spent, Uncached) as error:
        outcome.lost, outcome.detail = "budget" if isinstance(error, Spent) else "uncached", str(error)
        return own_scores(outcome, passed=passed)
    return observations, lost


async def _ask(
    metrics: Sequence[Metric],
    outcome: Outcome,
    reply: Reply,
    sample: Sample,
    observations: list[Observation],
    lost: list[Lost],
    member: str = "",
) -> None:
    for metric in metrics:
        name = of_member(metric.name, member) if member else metric.name
        try:
            given = member_score(metric, reply, sample) if member else metric.function(reply, sample)
            if inspect.isawaitable(given):
                given = await given
            observations.append(_observed(outcome, name, *checked(given, metric.facts)))
        except (Refused, Spent, Uncached):
            raise
        except Exception as error:  # a scorer that breaks says nothing about the model
            lost.append(_lost(outcome, name, _said(error, name)))


async def _ask_members(
    metrics: Sequence[Metric],
    outcome: Outcome,
    reply: Reply,
    sample: Sample,
    observations: list[Observation],
    lost: list[Lost],
) -> None:
    """What an ensemble's reply says besides, unless the suite scores it by itself; and the metrics of each member's reply."""
    taken = {one.metric for one in observations} | {one.metric for one in lost}
    observations.extend(_observed(outcome, *said) for said in observed(reply) if said[0] not in taken)
    for member, answered in reply.members.items():
        await _ask(metrics, outcome, answered, sample, observations, lost, member)


def _of_lost_members(metrics: Sequence[Metric], outcome: Outcome, reply: Reply) -> Iterator[Lost]:
    """What members that could not be had would have scored, nobody knows."""
    for member, why in reply.lost_members.items():
        for metric in metrics:
            name = of_member(metric.name, member)
            yield Lost(outcome.arm, outcome.position, outcome.epoch, name, "member", f"member {member!r}: {why}")


def checked(given: Any, facts: MetricFacts) -> tuple[Value | None, str]:
    """A value that can be stored and counted, with the reason when it is None.

    Raises BadScore for NaN, infinities, values outside the declared bounds and types that are no score.
    """
    if given is True or given is False:
        return given, ""
    if given is None:
        return None, UNEXPLAINED
    if isinstance(given, NotApplicable):
        return None, given.reason
    if hasattr(given, "item") and not isinstance(given, str):  # a numpy scalar: it can be neither stored nor sent
        return checked(given.item(), facts)
    if isinstance(given, str):
        if facts.kind == "text":
            return given, ""
        raise BadScore(f"returned the str {given!r:.60}: return bool, a number or None, or declare kind='text'")
    if not isinstance(given, int | float):
        raise BadScore(f"returned a {type(given).__name__}: return bool, a number or None")
    if facts.kind == "binary" and given not in (0, 1):
        raise BadScore(f"returned {given:g}: a binary metric is True or False; declare bounds for a graded one")
    return _within(float(given), facts), ""


def _within(value: float, facts: MetricFacts) -> float:
    if not math.isfinite(value):
        raise BadScore(f"returned {value}: a score is a finite number; return None where the metric does not apply")
    if not facts.low <= value <= facts.high:
        raise BadScore(f"returned {value:g}, outside its bounds [{facts.low:g}, {facts.high:g}]")
    return value


def _observed(outcome: Outcome, metric: str, value: Value | None, reason: str = "") -> Observation:
    return Observation(outcome.arm, outcome.position, outcome.epoch, metric, value, reason)


def _lost(outcome: Outcome, metric: str | None, detail: str) -> Lost:
    reason = outcome.lost or "scorer"
    return Lost(outcome.arm, outcome.position, outcome.epoch, metric, reason, detail)


def _said(error: Exception, metric: str) -> str:
    verb = str(error) if isinstance(error, BadScore) else f"raised {type(error).__name__}: {error}"
    return f"metric {metric!r} {verb}"
