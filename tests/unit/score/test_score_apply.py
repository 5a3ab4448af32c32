"""Observations of outcomes: what counts as a score, and what is lost instead."""

from __future__ import annotations

import asyncio
import math
from decimal import Decimal

import numpy as np
import pytest

from pytest_crucible import Metric, NotApplicable, Reply, Sample, metric
from pytest_crucible.records import Lost, MetricFacts, Observation, Outcome, Unit
from pytest_crucible.records.errors import BackendError, Refused, Spent, Uncached
from pytest_crucible.score import BadScore, check_score, score_outcome

SAMPLE = Sample(id="a", input="2 + 2", expected="4")
FREE = MetricFacts(name="score")


def answered_outcome(text: str = "4", **fields) -> Outcome:
    return Outcome(Unit(2, 0, 1, 3), reply=Reply(text=text), **fields)


def returning(value: object, *, name: str = "score", **declaration) -> Metric:
    return metric(name=name, **declaration)(lambda reply, sample: value)


def observation(name: str, value: object, reason: str = "") -> Observation:
    return Observation(Unit(2, 0, 1, 3), name, value, reason)


def score(outcome: Outcome, *metrics: Metric, passed: bool = False) -> tuple[list[Observation], list[Lost]]:
    return asyncio.run(score_outcome(outcome, metrics, SAMPLE, passed=passed))


def refusal(value: object, facts: MetricFacts = FREE) -> str:
    with pytest.raises(BadScore) as caught:
        check_score(value, facts)
    return str(caught.value)


# -- one value ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "value", "kind"),
    [
        (True, True, bool),
        (False, False, bool),
        (1, 1.0, float),
        (0.5, 0.5, float),
        (-3, -3.0, float),
        (np.True_, True, bool),
        (np.float32(0.5), 0.5, float),
        (np.float64(0.5), 0.5, float),
        (np.int64(7), 7.0, float),
        (np.array(0.25), 0.25, float),
    ],
)
def test_bools_and_numbers_are_scores(returned, value, kind):
    score, reason = check_score(returned, FREE)

    assert (score, reason) == (value, "")
    assert type(score) is kind


@pytest.mark.parametrize(
    ("returned", "reason"),
    [(None, "not applicable"), (NotApplicable("no citation to check"), "no citation to check")],
)
def test_a_metric_that_does_not_apply_has_a_reason(returned, reason):
    assert check_score(returned, FREE) == (None, reason)


def test_a_text_metric_gives_labels():
    assert check_score("refuted", MetricFacts(name="label", kind="text")) == ("refuted", "")


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (math.nan, "returned nan: a score is a finite number; return None where the metric does not apply"),
        (math.inf, "returned inf: a score is a finite number; return None where the metric does not apply"),
        (-math.inf, "returned -inf: a score is a finite number; return None where the metric does not apply"),
        (np.float64("nan"), "returned nan: a score is a finite number; return None where the metric does not apply"),
        ("yes", "returned the string 'yes': return a boolean, a number or None, or declare kind='text'"),
        ([1], "returned a list: return a boolean, a number or None"),
        ({"score": 1}, "returned a dict: return a boolean, a number or None"),
        (Decimal("0.5"), "returned a Decimal: return a boolean, a number or None"),
        (object(), "returned an object: return a boolean, a number or None"),
        (1j, "returned a complex number: return a boolean, a number or None"),
    ],
    ids=["nan", "inf", "minus-inf", "numpy-nan", "str", "list", "dict", "decimal", "object", "complex"],
)
def test_invalid_scores_are_refused(returned, sentence):
    assert refusal(returned) == sentence


@pytest.mark.parametrize("value", [0, 0.5, 1, True])
def test_a_value_within_its_bounds_is_a_score(value):
    assert check_score(value, MetricFacts(name="score", kind="bounded", low=0, high=1)) == (value, "")


@pytest.mark.parametrize("value", [-0.001, 1.001, 85])
def test_a_value_outside_its_bounds_is_refused(value):
    facts = MetricFacts(name="score", kind="bounded", low=0, high=1)

    assert refusal(value, facts) == f"returned {value:g}, outside its bounds [0, 1]: correct the metric or its bounds"


def test_a_binary_metric_may_return_1():
    assert check_score(1, MetricFacts(name="right", kind="binary", low=0, high=1)) == (1.0, "")


def test_a_binary_metric_refuses_fractions():
    facts = MetricFacts(name="right", kind="binary", low=0, high=1)

    assert refusal(0.5, facts) == "returned 0.5: a binary metric is True or False; declare bounds for a graded one"


# -- one outcome --------------------------------------------------------------------------------------------------


def test_each_metric_gets_the_reply_and_the_sample():
    right = metric(name="right")(lambda reply, sample: reply.text == sample.expected)
    length = metric(name="length")(lambda reply, sample: len(reply.text))

    assert score(answered_outcome("4"), right, length) == (
        [observation("right", True), observation("length", 1.0)],
        [],
    )


def test_a_metric_that_does_not_apply_is_observed_with_its_reason():
    silent = returning(NotApplicable("nothing to cite"))

    assert score(answered_outcome(), silent) == (
        [observation("score", None, "nothing to cite")],
        [],
    )


def test_scores_of_the_function_come_first():
    outcome = answered_outcome(scores={"steps": 3.0, "note": None})

    observations, _ = score(outcome, returning(True))

    assert observations == [observation("steps", 3.0), observation("note", None), observation("score", True)]


def test_a_metric_that_raises_loses_its_own_value_and_no_other():
    def failing_metric(reply, sample):
        raise KeyError("label")

    observations, lost = score(answered_outcome(), metric(failing_metric), returning(True))

    assert observations == [observation("score", True)]
    assert lost == [
        Lost(Unit(2, 0, 1, 3), "failing_metric", "scorer", "metric 'failing_metric' raised KeyError: 'label'")
    ]


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (math.nan, "returned nan: a score is a finite number; return None where the metric does not apply"),
        (2, "returned 2, outside its bounds [0, 1]: correct the metric or its bounds"),
        (np.array([1, 2]), "raised ValueError: can only convert an array of size 1 to a Python scalar"),
    ],
    ids=["nan", "outside", "array"],
)
def test_an_invalid_score_is_lost(value, outcome):
    assert score(answered_outcome(), returning(value, bounds=(0, 1))) == (
        [],
        [Lost(Unit(2, 0, 1, 3), "score", "scorer", f"metric 'score' {outcome}")],
    )


@pytest.mark.parametrize("failure", ["assertion", "timeout", "truncated"])
def test_a_failure_keeps_earlier_scores_and_calls_no_metric(failure):
    outcome = answered_outcome(failure=failure, scores={"steps": 3.0})

    assert score(outcome, returning(True)) == ([observation("steps", 3.0)], [])


def test_a_skipped_sample_keeps_earlier_scores():
    outcome = Outcome(Unit(2, 0, 1, 3), skipped=True, scores={"steps": 3.0})

    assert score(outcome, returning(True), passed=True) == ([observation("steps", 3.0)], [])


def test_a_lost_sample_has_no_scores():
    outcome = answered_outcome(lost="error", detail="connection refused", scores={"steps": 3.0})

    assert score(outcome, returning(True), passed=True) == (
        [],
        [Lost(Unit(2, 0, 1, 3), None, "error", "connection refused")],
    )


def test_no_metric_is_called_without_a_reply():
    assert score(Outcome(Unit(2, 0, 1, 3)), returning(True)) == ([], [])


@pytest.mark.parametrize(("failure", "passed"), [(None, True), ("assertion", False), ("timeout", False)])
def test_passed_is_a_score_on_request(failure, passed):
    assert score(answered_outcome(failure=failure), passed=True) == (
        [observation("passed", passed)],
        [],
    )


def test_a_suites_own_passed_score_is_kept():
    assert score(answered_outcome(scores={"passed": False}), passed=True) == (
        [observation("passed", False)],
        [],
    )


# -- metrics that ask a model -----------------------------------------------------------------------------------------


def asking(answer: object, *, name: str = "asked") -> Metric:
    """A metric that waits before it gives its answer, or raises it."""

    @metric(name=name)
    async def asking_metric(reply, sample):
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asking_metric


def test_an_async_metric_is_awaited():
    outcome = score(answered_outcome(), asking(0.5), returning(True))

    assert outcome == ([observation("asked", 0.5), observation("score", True)], [])


def test_a_failing_model_loses_its_metric_alone():
    observations, lost = score(answered_outcome(), asking(BackendError("down")), returning(True))

    assert observations == [observation("score", True)]
    assert lost == [Lost(Unit(2, 0, 1, 3), "asked", "scorer", "metric 'asked' raised BackendError: down")]


@pytest.mark.parametrize(("error", "reason"), [(Spent("no more"), "budget"), (Uncached("not kept"), "uncached")])
def test_an_exhausted_budget_of_a_metric_loses_the_sample(error, reason):
    outcome = answered_outcome()
    output = score(outcome, returning(True), asking(error), passed=True)

    assert output == ([], [Lost(Unit(2, 0, 1, 3), None, reason, str(error))])
    assert outcome.lost == reason


def test_a_refusing_model_stops_the_experiment():
    with pytest.raises(Refused, match="bad key"):
        score(answered_outcome(), asking(Refused("bad key")))
