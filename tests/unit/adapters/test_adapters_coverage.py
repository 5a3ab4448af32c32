"""Warnings where recorded replies and the samples of a dataset do not match."""

from __future__ import annotations

import pytest
from experiment_builders import arm_of, scripted_arm

from pytest_crucible.adapters.opened_arm import OpenedArm, coverage_warnings
from pytest_crucible.backends.offline import recorded_rows
from pytest_crucible.datasets import identify
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError

SAMPLES = [Sample(id=name, input=name) for name in "abcd"]


def recorded_arm(answered: str, name: str = "v2") -> OpenedArm:
    return arm_of(recorded_rows([{"sample_id": sample, "text": "x"} for sample in answered], name=name), name)


def warnings(*arms: OpenedArm, selected: str = "abcd") -> list[str]:
    dataset = identify("letters", [sample for sample in SAMPLES if sample.id in selected])
    return list(coverage_warnings(arms, lambda: [sample.id for sample in SAMPLES], dataset))


def test_matching_answers_and_models_give_no_warning():
    assert warnings(recorded_arm("abcd"), scripted_arm(lambda request: "a", "v1")) == []


def test_samples_without_an_answer_are_counted_with_the_first():
    assert warnings(recorded_arm("ad")) == [
        "adapter 'v2' lacks replies to 2 of 4 samples (first: b): they will be lost"
    ]


def test_arms_without_a_reply_to_any_sample_are_errors_all_together():
    """Integer ids in the files, text ids in the dataset, for example."""
    with pytest.raises(SpecError) as caught:
        warnings(recorded_arm("01"), recorded_arm("2", "v1"))

    assert str(caught.value).splitlines() == [
        "adapter 'v2' has a reply to none of the 4 samples of dataset 'letters': its replies are to '0', ..., and the samples are "
        "'a', ...: give both the same ids",
        "adapter 'v1' has a reply to none of the 4 samples of dataset 'letters': its replies are to '2', ..., and the samples are "
        "'a', ...: give both the same ids",
    ]


def test_answers_to_unknown_samples_are_counted_with_the_first():
    assert warnings(recorded_arm("abcdzx")) == [
        "adapter 'v2' answers samples that dataset 'letters' does not have: 2 (first: x); they are ignored"
    ]


def test_samples_that_were_not_drawn_are_neither_missing_nor_unknown():
    assert warnings(recorded_arm("ab"), selected="ab") == []
    assert warnings(recorded_arm("abcd"), selected="ab") == []


def test_members_of_an_ensemble_answer_without_the_one_that_lacks_answers():
    members = recorded_arm("abcd", "one"), recorded_arm("abc", "two"), scripted_arm(lambda request: "a", "three")
    ensemble = OpenedArm(arm_of(recorded_arm("abcd").backend, "both").arm, None, members)

    assert warnings(ensemble) == [
        "member 'two' of adapter 'both' lacks replies to 1 of 4 samples (first: d): there the others answer without it"
    ]
