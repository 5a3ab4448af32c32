"""One unit: what its exceptions mean, the scores that its test gives, and the scores of its metrics."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from experiment_builders import plan_item, scripted_arm

from pytest_crucible.records import MetricFacts, Outcome, Reply, Unit
from pytest_crucible.records.errors import StoreError
from pytest_crucible.sample.engine import Deadline
from pytest_crucible.session.call import ScoredUnits, ScoreRecorder, classify_exception
from pytest_crucible.session.experiment import Experiment

SOURCE = """
    import pytest

    def length(reply, sample):
        return float(len(reply.text))

    async def slow(reply, sample):
        import asyncio
        await asyncio.sleep(60)

    @pytest.mark.crucible(dataset=[{"id": "a", "input": 1}], metrics=[length])
    @pytest.mark.quality_target("passed >= 0.5")
    async def test_it(sample, sampler):
        pass
"""
UNIT = Unit(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("error", "judgement"),
    [
        (AssertionError("wrong"), "failed"),
        (pytest.fail.Exception("wrong"), "failed"),
        (pytest.skip.Exception("does not apply"), "skipped"),
        (ValueError("broken"), "lost"),
        (TimeoutError(), "lost"),
        (StoreError("disk full"), "stop"),
        (pytest.exit.Exception("enough"), "stop"),
        (KeyboardInterrupt(), "stop"),
        (SystemExit(1), "stop"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_exception_fails_skips_or_loses_its_sample_or_ends_the_session(error, judgement):
    assert classify_exception(error) == judgement


# -- the scores of a test -------------------------------------------------------------------------------------------


def test_a_test_may_score_several_names_and_score_again():
    scores: dict[str, Any] = {}
    record = ScoreRecorder(scores, {})
    record(right=True, steps=3)
    record(steps=4, mood="calm", other=None)

    assert scores == {"right": True, "steps": 4, "mood": "calm", "other": None}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (float("nan"), r"score\(right=\.\.\.\) was given nan"),
        ([1], r"score\(right=\.\.\.\) was given a list: return a boolean"),
    ],
    ids=["nan", "list"],
)
def test_an_invalid_score_is_refused_by_its_name(value, sentence):
    scores: dict[str, Any] = {}
    with pytest.raises(ValueError, match=sentence):
        ScoreRecorder(scores, {})(right=value)

    assert scores == {}


def test_a_score_has_to_fit_the_declared_metric():
    record = ScoreRecorder({}, {"right": MetricFacts(name="right", kind="bounded", low=0.0, high=1.0)})
    record(right=0.5)

    with pytest.raises(ValueError, match="score"):
        record(right=1.5)


# -- the scores of metrics ------------------------------------------------------------------------------------------


def score(experiment: Experiment, outcome: Outcome, deadline: Deadline | None = None) -> tuple[Outcome, Any, Any]:
    async def ask(unit: Unit) -> Outcome:
        return outcome

    units = ScoredUnits(experiment, ask, deadline)
    done = asyncio.run(units(UNIT))
    return done, *units.pop_scores(done)


@pytest.fixture
def experiment(pytester: pytest.Pytester) -> Experiment:
    return plan_item(pytester, SOURCE, scripted_arm(lambda request: "a"))[1]


def test_a_reply_has_the_values_of_all_metrics_and_passed(experiment):
    _, observations, lost = score(experiment, Outcome(UNIT, reply=Reply(text="four")))

    assert {observation.metric: observation.value for observation in observations} == {"length": 4.0, "passed": True}
    assert lost == []


def test_a_failure_is_scored_as_such_and_not_by_metrics(experiment):
    _, observations, _ = score(experiment, Outcome(UNIT, reply=Reply(text="four"), failure="assertion"))

    assert {observation.metric: observation.value for observation in observations} == {"passed": False}


def test_a_lost_unit_has_no_scores_and_one_loss(experiment):
    _, observations, lost = score(experiment, Outcome(UNIT, lost="error", detail="down"))

    assert observations == []
    assert [(entry.metric, entry.reason, entry.detail) for entry in lost] == [(None, "error", "down")]


def test_scores_are_handed_over_once(experiment):
    async def ask(unit: Unit) -> Outcome:
        return Outcome(unit, reply=Reply(text="four"))

    units = ScoredUnits(experiment, ask, None)
    done = asyncio.run(units(UNIT))
    first, second = units.pop_scores(done), units.pop_scores(done)

    assert {entry.metric for entry in first[0]} == {"length", "passed"}
    assert {entry.metric for entry in second[0]} == {"passed"}


def test_scoring_that_the_deadline_cuts_short_loses_the_unit(pytester):
    source = SOURCE.replace("metrics=[length]", "metrics=[slow]")
    _, experiment = plan_item(pytester, source, scripted_arm(lambda request: "a"))
    deadline = Deadline(time.monotonic() + 0.2, "soon")
    done, observations, lost = score(experiment, Outcome(UNIT, reply=Reply(text="four")), deadline)

    assert done.lost == "deadline"
    assert observations == []
    assert [entry.reason for entry in lost] == ["deadline"]
