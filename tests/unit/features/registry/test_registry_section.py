"""The number of candidates measured on the same samples, if a registered version is an arm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import arm, inputs_of

from pytest_crucible.features.registry import section as candidates
from pytest_crucible.sections.inputs import NoStoredDetails


class Measured(NoStoredDetails):
    def __init__(self, number: int) -> None:
        self.number = number

    def candidates_on_samples(self) -> int:
        return self.number


def notes(number: int, baseline: str) -> list[str]:
    inputs = inputs_of(arm(a=[True, False]), arm(a=[True, True]), stored=Measured(number))
    first, second = inputs.plan.arms
    inputs = replace(inputs, plan=replace(inputs.plan, arms=(first, replace(second, name=baseline))), alpha=0.00032)
    count = candidates.compute(inputs)
    return [] if count is None else [note.text for note in candidates.view(count, ()).notes]


@pytest.mark.parametrize(("number", "baseline"), [(1, "claims@2"), (12, "v1"), (12, "a@b")])
def test_the_first_candidate_and_runs_without_a_version_have_no_note(number, baseline):
    assert notes(number, baseline) == []


def test_a_later_candidate_is_counted():
    assert notes(12, "claims@2") == ["v2: 12th candidate on these 2 samples, decided at alpha 0.00032"]
