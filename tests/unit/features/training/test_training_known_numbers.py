"""Targets on the numbers of a training: which names they have, and what cannot be asked of them."""

from __future__ import annotations

import pytest

from pytest_crucible import SpecError
from pytest_crucible.plan.design import plan_metrics
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Contrast, MetricFacts, TrainingResult

ACCURACY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)


def refusals_for(*facts, targets=(), compared=(), open_metrics=False):
    return plan_metrics(
        facts,
        [parse_target(text) for text in targets],
        [Contrast(metric=name, baseline="") for name in compared],
        open_metrics=open_metrics,
    )


def refusal(*facts, **target) -> str:
    with pytest.raises(SpecError) as caught:
        refusals_for(*facts, **target)
    return str(caught.value)


@pytest.mark.parametrize("name", TrainingResult.__dataclass_fields__)
def test_every_number_of_a_training_can_be_judged(name):
    assert refusals_for(ACCURACY, targets=[f"{name} <= 1"]) == (ACCURACY,)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("loss_reducton >= 0.95", "loss_reduction"),
        ("reduction >= 0.95", "loss_reduction"),
        ("converged_steps < 500", "convergence_steps"),
        ("gradient_norm_finite == 1", "gradient_norms_finite"),
        ("train_steps < 500", "training_steps"),
    ],
)
def test_a_misspelt_name_is_found_with_the_nearest_one(text, meant):
    name = text.split()[0]

    assert refusal(ACCURACY, targets=[text]) == (
        f"target {text!r} names metric {name!r}: did you mean {meant!r}? this experiment has accuracy"
    )


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("p95(final_loss) <= 0.5", "final_loss <= 0.5"),
        ("count(training_steps) < 500", "training_steps < 500"),
        ("rate(final_loss <= 0.5) >= 0.9", "final_loss <= 0.5"),
    ],
)
def test_it_is_one_number_of_which_there_is_no_statistic(text, instead):
    name = instead.split()[0]

    assert refusal(ACCURACY, targets=[text]) == (
        f"target {text!r} asks for a statistic of {name!r}, which is one number of the candidate's training: "
        f"write {instead!r}"
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("loss_reduction >= 95", "-inf", "1"),
        ("training_steps < 0", "1", "inf"),
        ("gradient_norms_finite == 2", "0", "1"),
        ("largest_gradient_norm <= -1", "0", "inf"),
    ],
)
def test_a_value_that_it_can_never_have_is_a_slip(text, low, high):
    name, _, value = text.split()

    assert refusal(ACCURACY, targets=[text]) == (
        f"target {text!r} asks for {value}, but {name!r} lies between {low} and {high}: write a value in that range, "
        "a percentage as a fraction"
    )


def test_trainings_cannot_be_compared():
    assert refusal(ACCURACY, compared=["final_loss"]) == (
        "ab_compare('final_loss') names a number of the training, of which each arm has one, so that nothing can be "
        "tested: judge it with quality_target, or compare on a metric"
    )


def test_a_metric_of_the_same_name_goes_first():
    own = MetricFacts(name="final_loss", kind="bounded", low=0, high=10)

    assert refusals_for(own, targets=["p95(final_loss) <= 9"], compared=["final_loss"]) == (own,)
    assert "lies between 0 and 10" in refusal(own, targets=["final_loss <= 11"])


def test_what_a_function_scores_by_itself_may_have_any_name():
    assert refusals_for(targets=["p95(final_loss) <= 9"], compared=["final_loss"], open_metrics=True) == ()


def test_a_training_alone_may_be_judged():
    assert [refusal.name for refusal in refusals_for(targets=["final_loss <= 0.5"])] == ["passed"]
