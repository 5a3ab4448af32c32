"""Observations of outcomes: what counts as a score, and what is lost instead."""

from __future__ import annotations

import asyncio
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import judged_at_once

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


# -- one value ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_value", "value", "kind"),
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
def test_bools_and_numbers_are_scores(given_value, value, kind):
    score, reason = check_score(given_value, FREE)

    assert (score, reason) == (value, "")
    assert type(score) is kind


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_a_score_of_its_own(number):
    assert check_score(number, FREE) == (number, "")


@pytest.mark.parametrize(
    ("given_value", "reason"),
    [(None, "not applicable"), (NotApplicable("no citation to check"), "no citation to check")],
)
def test_what_does_not_apply_has_no_value_but_a_reason(given_value, reason):
    assert check_score(given_value, FREE) == (None, reason)


def test_a_text_metric_gives_labels():
    assert check_score("refuted", MetricFacts(name="label", kind="text")) == ("refuted", "")


@pytest.mark.parametrize(
    ("given_value", "sentence"),
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
def test_what_is_no_score_is_refused(given_value, sentence):
    with pytest.raises(BadScore) as caught:
        check_score(given_value, FREE)

    assert str(caught.value) == sentence


def test_a_long_text_is_cut_in_the_complaint():
    with pytest.raises(BadScore) as caught:
        check_score("x" * 1000, FREE)

    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("value", [0, 0.5, 1, True])
def test_a_value_within_its_bounds_is_a_score(value):
    assert check_score(value, MetricFacts(name="score", kind="bounded", low=0, high=1)) == (value, "")


@pytest.mark.parametrize("value", [-0.001, 1.001, 85])
def test_a_value_outside_its_bounds_is_refused(value):
    with pytest.raises(BadScore) as caught:
        check_score(value, MetricFacts(name="score", kind="bounded", low=0, high=1))

    assert str(caught.value) == f"returned {value:g}, outside its bounds [0, 1]: correct the metric or its bounds"


def test_a_binary_metric_may_say_one_for_true():
    assert check_score(1, MetricFacts(name="right", kind="binary", low=0, high=1)) == (1.0, "")


def test_a_binary_metric_has_no_values_between():
    with pytest.raises(BadScore) as caught:
        check_score(0.5, MetricFacts(name="right", kind="binary", low=0, high=1))

    assert str(caught.value) == "returned 0.5: a binary metric is True or False; declare bounds for a graded one"


# -- one outcome --------------------------------------------------------------------------------------------------


def test_each_metric_is_asked_about_the_reply_and_the_sample():
    right = metric(name="right")(lambda reply, sample: reply.text == sample.expected)
    length = metric(name="length")(lambda reply, sample: len(reply.text))

    assert judged_at_once(answered_outcome("4"), [right, length], SAMPLE, passed=False) == (
        [observation("right", True), observation("length", 1.0)],
        [],
    )


def test_a_metric_that_does_not_apply_is_observed_with_its_reason():
    silent = returning(NotApplicable("nothing to cite"))

    assert judged_at_once(answered_outcome(), [silent], SAMPLE, passed=False) == (
        [observation("score", None, "nothing to cite")],
        [],
    )


def test_what_the_function_scored_comes_before_what_the_metrics_say():
    outcome = answered_outcome(scores={"steps": 3.0, "note": None})

    observations, _ = judged_at_once(outcome, [returning(True)], SAMPLE, passed=False)

    assert observations == [observation("steps", 3.0), observation("note", None), observation("score", True)]


def test_a_metric_that_raises_loses_its_own_value_and_no_other():
    def failing_metric(reply, sample):
        raise KeyError("label")

    observations, lost = judged_at_once(
        answered_outcome(), [metric(failing_metric), returning(True)], SAMPLE, passed=False
    )

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
def test_a_value_that_is_no_score_is_lost(value, outcome):
    assert judged_at_once(answered_outcome(), [returning(value, bounds=(0, 1))], SAMPLE, passed=False) == (
        [],
        [Lost(Unit(2, 0, 1, 3), "score", "scorer", f"metric 'score' {outcome}")],
    )


@pytest.mark.parametrize("failure", ["assertion", "timeout", "truncated"])
def test_a_failure_keeps_what_was_scored_before_and_asks_no_metric(failure):
    outcome = answered_outcome(failure=failure, scores={"steps": 3.0})

    assert judged_at_once(outcome, [returning(True)], SAMPLE, passed=False) == ([observation("steps", 3.0)], [])


def test_a_skipped_sample_keeps_what_was_scored_before():
    outcome = Outcome(Unit(2, 0, 1, 3), skipped=True, scores={"steps": 3.0})

    assert judged_at_once(outcome, [returning(True)], SAMPLE, passed=True) == ([observation("steps", 3.0)], [])


def test_a_lost_sample_says_nothing_else():
    outcome = answered_outcome(lost="error", detail="connection refused", scores={"steps": 3.0})

    assert judged_at_once(outcome, [returning(True)], SAMPLE, passed=True) == (
        [],
        [Lost(Unit(2, 0, 1, 3), None, "error", "connection refused")],
    )


def test_without_a_reply_no_metric_is_asked():
    assert judged_at_once(Outcome(Unit(2, 0, 1, 3)), [returning(True)], SAMPLE, passed=False) == ([], [])


@pytest.mark.parametrize(("failure", "passed"), [(None, True), ("assertion", False), ("timeout", False)])
def test_whether_the_function_passed_is_a_score_where_it_is_asked_for(failure, passed):
    assert judged_at_once(answered_outcome(failure=failure), [], SAMPLE, passed=True) == (
        [observation("passed", passed)],
        [],
    )


def test_a_suites_own_score_called_passed_is_not_given_twice():
    assert judged_at_once(answered_outcome(scores={"passed": False}), [], SAMPLE, passed=True) == (
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


def test_a_metric_that_asks_is_awaited():
    outcome = asyncio.run(score_outcome(answered_outcome(), [asking(0.5), returning(True)], SAMPLE, passed=False))

    assert outcome == ([observation("asked", 0.5), observation("score", True)], [])


def test_a_model_that_fails_loses_its_own_metric_alone():
    observations, lost = asyncio.run(
        score_outcome(answered_outcome(), [asking(BackendError("down")), returning(True)], SAMPLE, passed=False)
    )

    assert observations == [observation("score", True)]
    assert lost == [Lost(Unit(2, 0, 1, 3), "asked", "scorer", "metric 'asked' raised BackendError: down")]


@pytest.mark.parametrize(("error", "reason"), [(Spent("no more"), "budget"), (Uncached("not kept"), "uncached")])
def test_where_a_metric_may_ask_no_more_the_sample_is_lost_and_can_be_resumed(error, reason):
    outcome = answered_outcome()
    output = asyncio.run(score_outcome(outcome, [returning(True), asking(error)], SAMPLE, passed=True))

    assert output == ([], [Lost(Unit(2, 0, 1, 3), None, reason, str(error))])
    assert outcome.lost == reason


def test_a_model_that_refuses_everything_ends_the_experiment():
    with pytest.raises(Refused, match="bad key"):
        asyncio.run(score_outcome(answered_outcome(), [asking(Refused("bad key"))], SAMPLE, passed=False))
