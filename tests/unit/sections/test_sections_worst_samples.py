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
    worst = worst_of(arm(a=[1.0, 2.0, 0.0, 9.0]), arm(a=[3.0, 2.0, 9.0, 1.0]))

    assert [(entry.sample, entry.value, entry.baseline_value) for entry in worst] == [("2", 0.0, 9.0), ("0", 1.0, 3.0)]
    assert [entry.reply for entry in worst] == ["reply 2", "reply 0"]


def test_the_document_has_what_a_reader_needs():
    [first, *_] = worst_samples.view(worst_of(arm(a=[1.0, 0.0]), arm(a=[3.0, 2.0])), ()).document

    assert first == {"sample": "1", "metric": "a", "value": 0.0, "baseline_value": 2.0, "reply": "reply 1",
                     "input": "input 1", "expected": "1"}  # fmt: skip


def test_without_a_baseline_they_are_the_lowest():
    worst = worst_of(arm(a=[float(9 - k) for k in range(8)]))

    assert [entry.sample for entry in worst] == ["7", "6", "5", "4", "3"]
    assert len(worst) == HOW_MANY


def test_where_lower_is_better_they_are_the_highest():
    worst = worst_of(arm(a=[1.0, 5.0, 3.0]), metrics=[MetricFacts(name="a", direction="lower")])

    assert [entry.sample for entry in worst] == ["1", "2", "0"]


def test_what_is_lost_is_not_worth_reading():
    worst = worst_of(arm(a=[1.0, None, 0.5]), arm(a=[2.0, 1.0, None]))

    assert [entry.sample for entry in worst] == ["0"]


def test_without_the_texts_of_a_run_there_is_nothing_to_read():
    assert worst_of(arm(a=[1.0, 0.0]), stored=NoStoredDetails()) == ()
