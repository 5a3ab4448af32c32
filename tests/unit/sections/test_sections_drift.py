"""Drift of a baseline: what these samples could not show is no note."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import Samples, analysis_inputs, arm

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.records import Contrast
from pytest_crucible.sections import drift
from pytest_crucible.sections.inputs import section_inputs


class Before(Samples):
    def __init__(self, answers) -> None:
        self.answers = answers

    def earlier_answers(self, number):
        return "0123456789ab", self.answers


def notes_of(today, before) -> list[str]:
    inputs = analysis_inputs(arm(a=today), arm(a=today), contrasts=[Contrast(metric="a", baseline="v1")])
    inputs = section_inputs(inputs, score_table(inputs), Before(arm(a=before)), alpha=0.05)
    drifts = drift.compute(inputs)
    claims = [replace(claim, p_adjusted=claim.p_value) for claim in drift.claims(drifts)]
    return [note.text for note in drift.view(drifts, claims).notes]


@pytest.mark.parametrize(
    ("n", "lost", "is_shown"),
    [
        (20, 0, True),
        (20, 3, True),
        (20, 40, False),
        (20, 15, False),
        (5, 0, False),
        (6, 0, True),
        (6, 1, False),
        (0, 9, False),
    ],
)
def test_samples_that_could_show_no_drift_have_no_note(n, lost, is_shown):
    before = [True] * (n + lost)

    notes = notes_of([True] * n + ["lost"] * lost, before)

    assert len(notes) == is_shown
    assert all(note.startswith("no drift of v1 since run 0123456789ab is proven") for note in notes)


def test_what_can_be_proven_at_most_is_proven():
    [note] = notes_of([False] * 20 + ["lost"] * 3, [True] * 23)

    assert note.startswith("v1 has drifted since run 0123456789ab: a -1.000")
