"""Reruns of a comparison are counted, once for all measures with one history."""

from __future__ import annotations

from collections.abc import Sequence

from answer_builders import arm, inputs_of

from pytest_crucible.records import Contrast, PastComparison
from pytest_crucible.sections.inputs import NoStoredDetails
from pytest_crucible.sections.replies import RERUNS

CONTRASTS = (Contrast(metric="a", baseline="v1"), Contrast(metric="b", baseline="v1"))


class History(NoStoredDetails):
    def __init__(self, *new: bool, now: bool = True) -> None:
        self.new, self.now = new, now

    def past_comparisons(self, contrast: Contrast) -> Sequence[PastComparison]:
        return [
            PastComparison(
                run=f"r{k}",
                started=f"2026-11-{k + 2:02}T10:00:00",
                arms=(1, 2),
                has_new_replies=(new, False),
                subject="a: candidate vs baseline",
                is_pooled=False,
                missed=False,
            )
            for k, new in enumerate(self.new)
        ]

    def has_new_replies(self, number: int) -> bool:
        return self.now


def notes(stored: NoStoredDetails, **facts: object) -> list[str]:
    values = [True, False]
    inputs = inputs_of(arm(a=values, b=values), arm(a=values, b=values), contrasts=CONTRASTS, stored=stored, **facts)
    return [note.text for note in RERUNS.view(RERUNS.compute(inputs) or (), ()).notes]


def test_the_first_comparison_says_nothing():
    assert notes(NoStoredDetails()) == []


def test_all_measures_with_one_history_share_a_note():
    assert notes(History(True, True)) == ["v1: comparison 3 of v2 with this baseline since 2026-11-02"]


def test_comparisons_without_new_replies_are_distinguished():
    assert notes(History(True, False)) == [
        "v1: comparison 3 of v2 with this baseline since 2026-11-02; 2 of the 3 with new replies"
    ]
    assert notes(History(True, now=False)) == [
        "v1: comparison 2 of v2 with this baseline since 2026-11-02; 1 of the 2 with new replies"
    ]


def test_a_session_that_was_cut_short_is_no_comparison():
    assert notes(History(True), n=3, selected=2) == []
