"""Sections on replies: losses, reruns, stored baselines, drift of a baseline, and the worst samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from answer_builders import Samples, analysis_inputs, arm, inputs_of

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.records import ArmOutcomes, Contrast, MetricFacts, PastComparison
from pytest_crucible.sections import drift, worst_samples
from pytest_crucible.sections.inputs import NoStoredDetails, section_inputs
from pytest_crucible.sections.replies import LOSSES, MANY, RERUNS, RISK, STORED_BASELINES


def test_losses_are_counted_by_reason_and_the_never_asked_among_them():
    inputs = inputs_of(arm(a=[True, "lost", True], b=["lost", "lost", 1.0]), arm(a=[True, True, True]), n=5)

    assert LOSSES.compute(inputs).lost == {"v2": {"error": 1, "scorer": 1, "not_run": 2}, "v1": {"not_run": 2}}


def test_a_cause_of_several_losses_is_shown_once():
    losses = LOSSES.compute(inputs_of(arm(a=["lost", True], b=["lost", True])))
    [arm_name] = losses.first
    losses = replace(losses, first={arm_name: {"error": "the same", "scorer": "the same", "grader": "another"}})

    assert LOSSES.view(losses, ()).notes[0].details == ("first: the same", "first: another")


def test_what_was_not_selected_is_said_to_be_deselected():
    inputs = inputs_of(arm(a=[True, True, True]), n=5, selected=3)

    assert LOSSES.compute(inputs).lost == {"v2": {"deselected": 2}}


def test_failures_are_counted_by_kind():
    inputs = inputs_of(arm(failures={0: "timeout", 1: "truncated"}, a=[None, None]))

    assert LOSSES.compute(inputs).failures == {"v2": {"timeout": 1, "truncated": 1}}


def test_the_methods_say_what_proven_means_where_something_is_lost():
    whole, lossy = (LOSSES.compute(inputs_of(arm(a=values))) for values in ([True, True], [True, "lost"]))

    assert LOSSES.view(whole, ()).methods == ()
    assert [method.text for method in LOSSES.view(lossy, ()).methods] == [
        "A verdict is called proven only where it holds whatever the lost values were."
    ]


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


def rerun_notes(stored: NoStoredDetails, **facts: object) -> list[str]:
    values = [True, False]
    inputs = inputs_of(arm(a=values, b=values), arm(a=values, b=values), contrasts=CONTRASTS, stored=stored, **facts)
    return [note.text for note in RERUNS.view(RERUNS.compute(inputs) or (), ()).notes]


def test_all_measures_with_one_history_share_a_note_that_distinguishes_new_replies():
    since = "of v2 with this baseline since 2026-11-02"

    assert rerun_notes(NoStoredDetails()) == []
    assert rerun_notes(History(True, True)) == [f"v1: comparison 3 {since}"]
    assert rerun_notes(History(True, False)) == [f"v1: comparison 3 {since}; 2 of the 3 with new replies"]
    assert rerun_notes(History(True, now=False)) == [f"v1: comparison 2 {since}; 1 of the 2 with new replies"]


def test_a_session_that_was_cut_short_is_no_comparison():
    assert rerun_notes(History(True), n=3, selected=2) == []


class Served(NoStoredDetails):
    def __init__(self, sessions: int) -> None:
        self.sessions = sessions

    def sessions_with_same_replies(self, baseline: int) -> int:
        return self.sessions


@pytest.mark.parametrize(("sessions", "suggested"), [(MANY - 1, False), (MANY, True)])
def test_a_baseline_that_has_served_many_sessions_is_suggested_for_a_fresh_run(sessions, suggested):
    baselines = STORED_BASELINES.compute(inputs_of(arm(a=[True]), arm(a=[True]), stored=Served(sessions)))
    notes = [note.text for note in STORED_BASELINES.view(baselines or (), ()).notes]

    sentence = f"v1: 10 sessions have compared with the same stored replies of it; {RISK}: --crucible-fresh calls its model again"
    assert notes == ([sentence] if suggested else [])


def test_a_baseline_of_recorded_replies_is_never_suggested():
    inputs = inputs_of(arm(a=[True]), arm(a=[True]), stored=Served(100))
    candidate, baseline = inputs.plan.arms
    recorded = replace(inputs, plan=replace(inputs.plan, arms=(candidate, replace(baseline, recorded=True))))

    assert STORED_BASELINES.compute(recorded) is None


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


@pytest.mark.parametrize(
    ("arms", "metrics", "samples"),
    [
        ([[float(9 - k) for k in range(8)]], [], ["7", "6", "5", "4", "3"]),
        ([[1.0, 5.0, 3.0]], [MetricFacts(name="a", direction="lower")], ["1", "2", "0"]),
        ([[1.0, None, 0.5], [2.0, 1.0, None]], [], ["0"]),
    ],
    ids=["without a baseline", "lower is better", "lost"],
)
def test_the_worst_samples_by_baseline_direction_and_loss(arms, metrics, samples):
    worst = worst_of(*(arm(a=values) for values in arms), **({"metrics": metrics} if metrics else {}))

    assert [entry.sample for entry in worst] == samples


def test_without_the_texts_of_a_run_there_is_nothing_to_read():
    assert worst_of(arm(a=[1.0, 0.0]), stored=NoStoredDetails()) == ()
