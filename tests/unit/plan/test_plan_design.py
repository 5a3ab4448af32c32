"""The design of an experiment from its markers."""

from __future__ import annotations

import pytest

from pytest_crucible import Sample, SpecError
from pytest_crucible.datasets import identify
from pytest_crucible.plan.design import PASSED, contrasts_with_baselines, group_count, plan_metrics
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Arm, Contrast, MetricFacts

ACCURACY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)
TOPIC = MetricFacts(name="topic", kind="text")


def sizes_for(*facts, targets=(), compared=(), open_metrics=False):
    return plan_metrics(
        facts,
        [parse_target(text) for text in targets],
        [Contrast(metric=name, baseline="") for name in compared],
        open_metrics=open_metrics,
    )


# -- metrics ------------------------------------------------------------------------------------------------------


def test_declared_metrics_are_judged():
    assert sizes_for(ACCURACY, TOPIC, targets=["accuracy >= 0.8"], compared=["accuracy"]) == (ACCURACY, TOPIC)


def test_an_experiment_without_metrics_is_judged_by_what_passed():
    assert sizes_for() == (PASSED,)


@pytest.mark.parametrize("named", [{"targets": ["passed >= 0.9"]}, {"compared": ["passed"]}], ids=["target", "compare"])
def test_what_passed_is_judged_where_it_is_named(named):
    assert sizes_for(ACCURACY, **named) == (ACCURACY, PASSED)


def test_a_metric_that_is_called_passed_takes_its_place():
    own = MetricFacts(name="passed", kind="bounded", low=0, high=10)

    assert sizes_for(own, targets=["passed >= 9"]) == (own,)


@pytest.mark.parametrize("condition", ["accuracy >= 80", "accuracy < -1"])
def test_a_condition_that_holds_for_every_value_or_none_is_refused(condition):
    with pytest.raises(
        SpecError, match=f"counts where {condition}, but 'accuracy' lies between 0 and 1: write a value"
    ):
        sizes_for(ACCURACY, targets=[f"count({condition}) == 0"])


def test_a_function_that_scores_by_itself_may_name_what_nothing_declares():
    assert sizes_for(targets=["steps <= 3"], compared=["steps"], open_metrics=True) == ()


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (
            {"targets": ["acuracy >= 0.8"]},
            "target 'acuracy >= 0.8' names metric 'acuracy': did you mean 'accuracy'? this experiment has "
            "accuracy, topic",
        ),
        (
            {"targets": ["f1 >= 0.8"]},
            "target 'f1 >= 0.8' names metric 'f1': this experiment has accuracy, topic",
        ),
        (
            {"compared": ["f1"]},
            "ab_compare('f1') names metric 'f1': this experiment has accuracy, topic",
        ),
        (
            {"targets": ["topic >= 0.8"]},
            "target 'topic >= 0.8' is about 'topic', which is text: name a metric of bool or numbers",
        ),
        (
            {"compared": ["topic"], "open_metrics": True},
            "ab_compare('topic') is about 'topic', which is text: name a metric of bool or numbers",
        ),
    ],
    ids=["near", "target", "comparison", "text-target", "text-comparison"],
)
def test_what_cannot_be_judged_is_refused(named, sentence):
    with pytest.raises(SpecError) as caught:
        sizes_for(ACCURACY, TOPIC, **named)

    assert str(caught.value) == sentence


# -- clusters and comparisons -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "count"),
    [([None, None, None], None), (["a", "b", "c"], None), (["a", "a", "b"], 2), (["a", "a", "a"], 1)],
    ids=["none", "each-its-own", "two", "one"],
)
def test_clusters_are_counted_where_samples_share_them(groups, count):
    samples = [Sample(id=str(k), input=k, group=group) for k, group in enumerate(groups)]

    assert group_count(identify("sums", samples)) == count


def test_each_comparison_is_made_against_each_baseline():
    arms = [
        Arm(name="v3", role="candidate", adapter="v3", identity="c"),
        Arm(name="v2", role="baseline", adapter="v2", identity="b"),
        Arm(name="v1", role="baseline", adapter="v1", identity="a"),
    ]
    requests = [
        Contrast(metric="accuracy", baseline=""),
        Contrast(metric="f1", baseline="", alternative="non-inferior", margin=0.05),
    ]

    assert contrasts_with_baselines(iter(requests), arms) == (
        Contrast(metric="accuracy", baseline="v2"),
        Contrast(metric="f1", baseline="v2", alternative="non-inferior", margin=0.05),
        Contrast(metric="accuracy", baseline="v1"),
        Contrast(metric="f1", baseline="v1", alternative="non-inferior", margin=0.05),
    )


def test_without_a_baseline_nothing_is_compared():
    candidate = Arm(name="v3", role="candidate", adapter="v3", identity="c")

    assert contrasts_with_baselines([Contrast(metric="accuracy", baseline="")], [candidate]) == ()
