"""Scores of replies: each metric is applied once, and its value is checked before it is stored."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Protocol

from pytest_crucible.metrics.definition import Metric, NotApplicable
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
from pytest_crucible.records.errors import Refused, Spent, Uncached, describe_type
from pytest_crucible.records.reasoning import answer_span, reasoning_text


def scored_reply(reply: Reply, reasoning: Reasoning) -> Reply:
    """Return the reply that metrics are applied to. The store keeps the original.

    Under "strip", `text` is the answer alone and `reasoning` the text before it, in any form in which servers send it; this
    holds for an ensemble's members, for further choices, and for a string that the test returned. Under "keep" nothing changes.
    """
    if reasoning == "keep":
        return reply
    answer = _without_reasoning(reply)
    if not (reply.members or reply.alternatives):
        return answer
    return replace(
        answer,
        members={name: scored_reply(member, reasoning) for name, member in reply.members.items()},
        alternatives=tuple(scored_reply(choice, reasoning) for choice in reply.alternatives),
    )


def _without_reasoning(reply: Reply) -> Reply:
    # A value that is not a string was built by the test, and its text is only how it is shown.
    is_text = reply.value is None or isinstance(reply.value, str)
    start, end = answer_span(reply.text) if is_text else (0, 0)
    if not start:
        return reply
    answer = reply.text[start:end].lstrip()
    return replace(
        reply,
        text=answer,
        reasoning="\n\n".join(part for part in (reply.reasoning, reasoning_text(reply.text, start)) if part),
        value=answer if reply.value == reply.text else reply.value,
    )


class BadScore(ValueError):
    """An invalid score; the message has the value and the expected values."""


Scored = tuple[list[Observation], list[Lost]]


class FurtherScores(Protocol):
    """Adds scores of an outcome to those of its metrics."""

    async def __call__(
        self, metrics: Sequence[Metric], outcome: Outcome, reply: Reply, sample: Sample, scored: Scored
    ) -> None: ...


def own_scores(outcome: Outcome, *, passed: bool) -> Scored:
    """Return the scores that the test function gave itself, and with `passed` also whether it passed.

    A lost outcome has no scores. A failed one keeps those given before it failed; the analysis, which knows the metric's
    kind, fills in the worst value of every other metric.
    """
    if outcome.lost:
        return [], [Lost(outcome.unit, None, outcome.lost, outcome.detail)]
    observations = [Observation(outcome.unit, *pair) for pair in outcome.scores.items()]
    if passed and not outcome.skipped and "passed" not in outcome.scores:
        observations.append(Observation(outcome.unit, "passed", outcome.failure is None, ""))
    return observations, []


async def score_outcome(
    outcome: Outcome,
    metrics: Sequence[Metric],
    sample: Sample,
    *,
    passed: bool,
    reasoning: Reasoning = "strip",
    further: Sequence[FurtherScores] = (),
) -> Scored:
    """Return all scores of one outcome: those of the test function, those of the metrics, and `further` ones.

    Metrics see the reply without its reasoning, unless `reasoning` is "keep".
    Where a metric's model is out of budget, the run was interrupted: the sample is lost, and a resumed run scores it.
    Raises Refused if a metric's model would refuse every request.
    """
    passed = passed and all(metric.name != "passed" for metric in metrics)
    observations, lost = own_scores(outcome, passed=passed)
    reply = outcome.reply
    if outcome.failure:
        metrics, reply, further = [each for each in metrics if each.scores_failures], reply or Reply(text=""), ()
    if reply is None or outcome.lost or outcome.skipped:
        return observations, lost
    reply = scored_reply(reply, reasoning)
    try:
        await apply_metrics(metrics, outcome, reply, sample, (observations, lost))
        for add_scores in further:
            await add_scores(metrics, outcome, reply, sample, (observations, lost))
    except (Spent, Uncached) as error:
        outcome.lost, outcome.detail = "budget" if isinstance(error, Spent) else "uncached", str(error)
        return own_scores(outcome, passed=passed)
    return observations, lost


# Values of most metrics: looking whether one can be awaited takes longer than many a metric.
_VALUES = frozenset({bool, int, float, str, NoneType})


async def apply_metrics(
    metrics: Iterable[Metric], outcome: Outcome, reply: Reply, sample: Sample, scored: Scored
) -> None:
    """Add the values of metrics for a reply, and what is lost because a metric raised an error."""
    observations, lost = scored
    for metric in metrics:
        try:
            value = metric.function(reply, sample)
            if type(value) not in _VALUES and inspect.isawaitable(value):
                value = await value
            observations.append(Observation(outcome.unit, metric.name, *check_score(value, metric.facts)))
        except (Refused, Spent, Uncached):
            raise
        except Exception as error:
            # an error of the scorer is not an error of the model
            verb = str(error) if isinstance(error, BadScore) else f"raised {type(error).__name__}: {error}"
            lost.append(Lost(outcome.unit, metric.name, outcome.lost or "scorer", f"metric {metric.name!r} {verb}"))


def check_score(value: Any, facts: MetricFacts) -> tuple[Value | None, str]:
    """Return a value that can be stored, with the reason when it is None. Raises BadScore for an invalid one."""
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
