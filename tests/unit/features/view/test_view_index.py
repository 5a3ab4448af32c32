"""The index of stored samples has the numbers of the report, and tells what is lost from what does not apply."""

from __future__ import annotations

import contextlib
import math

import numpy as np

from pytest_crucible.features.view.samples.index import STATES, SampleIndex, load_index
from pytest_crucible.records import MetricFacts, Sample
from pytest_crucible.records.datasets import AppliesTo
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.reporters import chapters
from pytest_crucible.store.runs import RunStore
from tests.stored_samples import FAILED, LOST, SKIPPED, Answer, numbered_samples, score, store_samples


def load(path, number=0) -> SampleIndex:
    with contextlib.closing(RunStore(str(path))) as store:
        key, plan, _ = store.all_experiments("run")[number]
        return load_index(store, "run", key, plan)


def states_of(index: SampleIndex, arm: int = 0) -> list[str]:
    return [STATES[code] for code in index.states[arm]]


def test_states_and_values_of_each_outcome(path):
    answers = [score(m=True), FAILED, LOST, SKIPPED, Answer(lost_metrics=("m",)), score(m=None)]
    store_samples(path, numbered_samples(6), {"v2": answers, "v1": [score(m=False)] * 6})

    index = load(path)

    assert states_of(index) == ["answered", "failed", "lost", "skipped", "answered", "answered"]
    np.testing.assert_array_equal(index.metrics["m"][0].values, [1, 0, math.nan, math.nan, math.nan, math.nan])
    assert index.metrics["m"][0].lost.tolist() == [False, False, True, False, True, False]
    assert index.metrics["m"][0].inapplicable.tolist() == [False, False, False, True, False, True]


def test_a_failure_without_a_worst_value_has_no_value(path):
    store_samples(path, numbered_samples(2), {"v2": [score(length=3.5), FAILED]})

    np.testing.assert_array_equal(load(path).metrics["length"][0].values, [3.5, math.nan])


def test_repeats_are_averaged_and_the_worst_state_counts(path):
    repeats = [score(m=True), score(m=False), LOST]
    store_samples(path, numbered_samples(1), {"v2": [repeats]}, repeats=3)

    index = load(path)

    assert index.metrics["m"][0].values.tolist() == [0.5]
    assert states_of(index) == ["lost"]
    assert index.latency_s[0].tolist() == [1.0]


def test_a_metric_applies_to_the_samples_that_it_is_about(path):
    samples = [Sample(id=name, input="q", expected=name) for name in ("approve", "deny")]
    facts = MetricFacts(name="m", kind="binary", low=0.0, high=1.0, applies_to=AppliesTo("approve", True))
    store_samples(path, samples, {"v2": [score(m=True), Answer()]}, metrics=(facts,))

    assert load(path).metrics["m"][0].inapplicable.tolist() == [False, True]


def test_samples_of_an_unfinished_run_without_a_result_are_pending_not_lost(path):
    store_samples(path, numbered_samples(3), {"v2": [score(m=True), LOST, None]}, status="running")

    index = load(path)

    assert states_of(index) == ["answered", "lost", "pending"]
    assert index.metrics["m"][0].lost.tolist() == [False, True, False]
    assert not index.is_final


def test_texts_of_a_metric_are_ranked_alike_in_all_arms(path):
    first, second = [score(topic="law", z=1.0), score(topic="art")], [score(topic="art"), score(topic="zoo")]
    store_samples(path, numbered_samples(2), {"v2": first, "v1": second})

    index = load(path)

    assert index.facts["topic"].kind == "text"
    assert index.main == "z"
    assert [arm.values.tolist() for arm in index.metrics["topic"]] == [[2, 1], [1, 3]]


def test_the_main_metric_and_the_values_are_those_of_the_report(path):
    facts = (
        MetricFacts(name="right", kind="binary", low=0.0, high=1.0),
        MetricFacts(name="seconds", direction="lower", low=0.0),
    )
    answers = [score(right=k % 3 > 0, seconds=k / 7) if k % 5 else FAILED for k in range(20)]
    baseline = [score(right=k % 2 > 0, seconds=k / 9) if k % 7 else LOST for k in range(20)]
    store_samples(path, numbered_samples(20), {"v2": answers, "v1": baseline}, metrics=facts)
    with contextlib.closing(RunStore(str(path))) as store:
        run = load_run(store, "run")
    with chapters(run) as [chapter]:
        index = load(path)

    assert index.main == chapter.metric
    assert list(index.metrics) == list(chapter.columns.scores)
    for name, columns in index.metrics.items():
        for arm, values in zip(columns, chapter.columns.scores[name], strict=True):
            np.testing.assert_array_equal(arm.values, values)
    assert [states_of(index, arm) for arm in range(2)] == [list(arm) for arm in chapter.columns.states]
    np.testing.assert_array_equal(index.latency_s[0], chapter.columns.latency_s[0])


def test_an_arm_without_outcomes_has_no_values(path):
    store_samples(path, numbered_samples(2), {"v2": [score(m=True)] * 2, "v1": [None] * 2})

    index = load(path)

    assert states_of(index, 1) == ["not run", "not run"]
    assert np.isnan(index.metrics["m"][1].values).all()


def test_what_a_run_that_ended_early_did_not_need_is_not_lost(path):
    store_samples(path, numbered_samples(3), {"v2": [score(m=True), LOST, None]})

    index = load(path)

    assert states_of(index) == ["answered", "lost", "not run"]
    assert index.metrics["m"][0].lost.tolist() == [False, True, False]


def test_what_an_interrupted_run_did_not_reach_is_lost_to_its_metrics_as_in_its_report(path):
    store_samples(path, numbered_samples(3), {"v2": [score(m=True), LOST, None]}, status="interrupted")

    index = load(path)

    assert states_of(index) == ["answered", "lost", "not run"]
    assert index.metrics["m"][0].lost.tolist() == [False, True, True]
