"""An item of a joined test: its outcome, its scores in the run store, and its fixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from experiment_builders import scripted_arm
from report_builders import make_plan

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.records import Arm, MetricFacts, Outcome, Reply, Sample, Unit
from pytest_crucible.records.errors import BackendError, SpecError
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.session.items import JoinedTest
from pytest_crucible.session.joined_items import Crucible, settle_outcome, store_item
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore

UNIT = Unit(0, 0, 1, 0)


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (None, (None, False, None, "")),
        (AssertionError("assert 4 == 5\n  and more"), ("assertion", False, None, "assert 4 == 5")),
        (AssertionError(), ("assertion", False, None, "AssertionError")),
        (pytest.skip.Exception("does not apply"), (None, True, None, "does not apply")),
        (ValueError("broken"), (None, False, "error", "ValueError: broken")),
        (KeyboardInterrupt(), (None, False, "error", "KeyboardInterrupt: ")),
    ],
    ids=["passed", "failed", "failed without words", "skipped", "lost", "interrupted"],
)
def test_an_exception_means_the_same_as_in_an_experiment(error, facts):
    outcome = settle_outcome(Outcome(UNIT), error)

    assert (outcome.failure, outcome.skipped, outcome.lost, outcome.detail) == facts


def test_what_was_lost_first_stays_lost():
    outcome = settle_outcome(Outcome(UNIT, lost="deadline", detail="too late"), AssertionError("wrong"))

    assert (outcome.lost, outcome.failure, outcome.detail) == ("deadline", None, "too late")


# -- the run store --------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    opened = RunStore(str(tmp_path / "runs.db"))
    opened.begin_run("run", started="now", seed=0, alpha=0.05, correction="holm", environment={})
    yield opened
    opened.close()


def load_stored(store: RunStore, outcome: Outcome, *metrics: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the stored replies of the baseline, and the observations that were reported."""
    plan = make_plan(metrics=tuple(MetricFacts(name=name) for name in metrics))
    key = store.add_experiment("run", plan, [Sample(id="a", input="a")])
    joined = JoinedTest(plan, {"a": 0}, [store.add_arm(key, k, arm.name, "") for k, arm in enumerate(plan.arms)])
    observed: list[dict[str, Any]] = []
    writer = store.writer()
    store_item(outcome, joined, "a", writer, lambda **facts: observed.append(facts))
    writer.close()
    assert not load_outcomes(store, key, 0).positions
    return load_outcomes(store, key, 1), observed


def test_scores_are_stored_in_the_items_arm_and_reported(store):
    outcomes, observed = load_stored(store, Outcome(UNIT, reply=Reply(text="4"), scores={"right": True}))

    assert list(outcomes.scores["right"].values) == [1.0]
    assert [(facts["arm"], facts["sample"], facts["observation"].value) for facts in observed] == [("v1", "a", True)]


@pytest.mark.parametrize(("failure", "value"), [(None, 1.0), ("assertion", 0.0)])
def test_passed_is_scored_where_it_is_asked_for(store, failure, value):
    outcomes, _ = load_stored(store, Outcome(UNIT, failure=failure), "passed")

    assert list(outcomes.scores["passed"].values) == [value]


def test_a_lost_item_is_stored_as_lost_and_scores_nothing(store):
    outcomes, observed = load_stored(
        store, Outcome(UNIT, lost="error", detail="down", scores={"right": True}), "passed"
    )

    assert (outcomes.scores, observed) == ({}, [])
    assert [(lost.reason, lost.detail) for lost in outcomes.lost] == [("error", "down")]


# -- the fixture ----------------------------------------------------------------------------------------------------


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    opened = BackgroundLoop()
    yield opened
    opened.close()


def test_an_item_sends_requests_of_its_sample_and_arm_and_numbers_them(loop):
    requests: list[tuple[str, str, int]] = []

    def answer(request):
        requests.append((request.sample, request.arm, request.call))
        return "4"

    crucible = Crucible(scripted_arm(answer), "a", Outcome(UNIT), lambda: loop, "t.py::t")

    assert [crucible.sampler.generate("2 + 2").text for _ in range(2)] == ["4", "4"]
    assert requests == [("a", "v2", 1), ("a", "v2", 2)]
    assert len(crucible.outcome.calls) == 2


def test_a_request_that_fails_raises_in_the_test(loop):
    def answer(request):
        raise BackendError("down")

    crucible = Crucible(scripted_arm(answer), "a", Outcome(UNIT), lambda: loop, "t.py::t")

    with pytest.raises(BackendError, match="down"):
        crucible.sampler.generate("2 + 2")


def test_without_an_adapter_it_scores_and_cannot_send():
    nameless = OpenedArm(Arm(name="candidate", role="candidate", adapter="", identity=""), None)
    crucible = Crucible(nameless, "a", Outcome(UNIT), BackgroundLoop, "t.py::t")
    crucible.score(right=True)

    assert crucible.outcome.scores == {"right": True}
    with pytest.raises(SpecError, match="no adapter to query: give --crucible-adapter=NAME"):
        _ = crucible.sampler
