"""The samples that are shown: furthest behind the first baseline, or simply worst."""

from __future__ import annotations

from answer_builders import arm, inputs_of

from pytest_crucible.records import ArmOutcomes, MetricFacts
from pytest_crucible.sections import worst_samples
from pytest_crucible.sections.inputs import NoStoredDetails
from pytest_crucible.sections.worst_samples import HOW_MANY


def worst_of(*arms: ArmOutcomes, **facts):
    return worst_samples.compute(inputs_of(*arms, **facts)) or ()


def test_the_worst_samples_are_those_that_fell_furthest_behind():
    found = worst_of(arm(a=[1.0, 2.0, 0.0, 9.0]), arm(a=[3.0, 2.0, 9.0, 1.0]))

    assert [(one.sample, one.value, one.baseline_value) for one in found] == [("2", 0.0, 9.0), ("0", 1.0, 3.0)]
    assert [one.reply for one in found] == ["reply 2", "reply 0"]


def test_the_document_has_what_a_reader_needs():
    [first, *_] = worst_samples.view(worst_of(arm(a=[1.0, 0.0]), arm(a=[3.0, 2.0])), ()).document

    assert first == {"sample": "1", "metric": "a", "value": 0.0, "baseline_value": 2.0, "reply": "reply 1",
                     "input": "input 1", "expected": "1"}  # fmt: skip


def test_without_a_baseline_they_are_the_lowest():
    found = worst_of(arm(a=[float(9 - k) for k in range(8)]))

    assert [one.sample for one in found] == ["7", "6", "5", "4", "3"]
    assert len(found) == HOW_MANY


def test_where_lower_is_better_they_are_the_highest():
    found = worst_of(arm(a=[1.0, 5.0, 3.0]), metrics=[MetricFacts(name="a", direction="lower")])

    assert [one.sample for one in found] == ["1", "2", "0"]


def test_what_is_lost_is_not_worth_reading():
    found = worst_of(arm(a=[1.0, None, 0.5]), arm(a=[2.0, 1.0, None]))

    assert [one.sample for one in found] == ["0"]


def test_without_the_texts_of_a_run_there_is_nothing_to_read():
    assert worst_of(arm(a=[1.0, 0.0]), stored=NoStoredDetails()) == ()
