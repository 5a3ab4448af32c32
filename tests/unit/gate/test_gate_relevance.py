"""Verdicts with a relevant difference, without excluded samples, and before the last stage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm
from hypothesis import given
from hypothesis import strategies as st
from test_gate_verdicts import ALPHA, analysis, both, comparison, evidence, reading, target_result, verdict

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.gate import decide_comparison, decide_verdicts
from pytest_crucible.gate.decide import Settled, decide_without_excluded
from pytest_crucible.gate.verdicts import leave_open
from pytest_crucible.records import BoundedValue, Contrast, Look, PastComparison, Ratio, ReducedEvidence, Verdict

PLAIN = Contrast(metric="a", baseline="v1")
RELEVANT = replace(PLAIN, relevant=0.05)

RULINGS = [
    # value, lower, upper, adjusted p: at a relevant difference of 0.05
    (-0.02, -0.03, -0.01, 0.001, ("met", True)),  # worse, and proven to be below it
    (0.02, 0.01, 0.03, 0.001, ("met", True)),
    (0.0, -0.04, 0.04, 0.9, ("met", True)),
    (0.0, -0.04, 0.04, None, ("met", True)),
    (0.03, -0.01, 0.07, 0.2, ("met", True)),  # not worse by it, whatever the upper end is
    (-0.04, -0.06, -0.02, 0.001, ("missed", True)),
    (-0.04, -0.05, -0.03, 0.001, ("missed", True)),
    (-0.09, -0.12, -0.06, 0.001, ("missed", True)),
    (-0.04, -0.09, 0.01, 0.2, ("met", False)),
    (0.04, -0.06, 0.12, 0.001, ("met", True)),
    (0.0, -0.06, 0.06, 0.0, ("met", False)),
    (-0.04, -0.06, -0.02, None, ("undecided", False)),
    (-0.04, None, None, 0.001, ("missed", True)),
    (-0.04, None, None, None, ("undecided", False)),
    (None, None, None, None, ("undecided", False)),
]


@pytest.mark.parametrize(("value", "lower", "upper", "p", "ruling"), RULINGS)
def test_a_relevant_difference_is_decided_by_the_lower_bound_first(value, lower, upper, p, ruling):
    assert decide_comparison(RELEVANT, reading(value, lower, upper), both(p), alpha=ALPHA) == ruling


def test_a_relevant_share_is_read_on_the_scale_of_logarithms():
    """10 % more is a logarithm of 0.0953."""
    share = replace(PLAIN, relevant=0.1, is_relative=True)
    rulings = [
        decide_comparison(share, reading(-0.05, lower, -0.01), both(0.001), alpha=ALPHA) for lower in (-0.095, -0.096)
    ]

    assert rulings == [("met", True), ("missed", True)]


numbers = st.floats(-1, 1).map(lambda number: round(number, 3))
ps = st.sampled_from([None, 0.001, ALPHA, 0.2])
relevances = st.floats(0.001, 1)


@st.composite
def readings(draw):
    lower, value, upper = sorted(draw(st.tuples(numbers, numbers, numbers)))
    is_known = draw(st.booleans())
    return reading(value, lower if is_known else None, upper if is_known else None)


@given(readings(), ps, relevances)
def test_a_verdict_never_contradicts_its_bounds(measured, p, relevant):
    contrast = replace(PLAIN, relevant=relevant)
    state, proven = decide_comparison(contrast, measured, both(p), alpha=ALPHA)

    if state == "missed":
        assert proven
        assert measured.value < 0
        assert p <= ALPHA
        assert measured.lower is None or measured.lower <= -relevant
    if state == "met" and proven:
        assert (measured.lower is not None and measured.lower > -relevant) or (measured.value > 0 and p <= ALPHA)
    if measured.lower is not None and measured.lower > -relevant:
        assert (state, proven) == ("met", True)


@given(readings(), ps, relevances)
def test_a_relevant_difference_never_adds_a_miss(measured, p, relevant):
    """So it cannot raise the rate of false alarms, in any family."""
    if decide_comparison(replace(PLAIN, relevant=relevant), measured, both(p), alpha=ALPHA)[0] == "missed":
        assert decide_comparison(PLAIN, measured, both(p), alpha=ALPHA) == ("missed", True)


@given(readings(), ps, relevances, relevances)
def test_a_miss_stays_a_miss_at_a_smaller_relevant_difference(measured, p, smaller, other):
    narrow, wide = (replace(PLAIN, relevant=relevant) for relevant in sorted((smaller, other)))

    if decide_comparison(wide, measured, both(p), alpha=ALPHA)[0] == "missed":
        assert decide_comparison(narrow, measured, both(p), alpha=ALPHA)[0] == "missed"


@given(readings(), relevances)
def test_met_and_proven_is_what_a_margin_of_that_size_proves(measured, relevant):
    margin = replace(PLAIN, alternative="non-inferior", margin=relevant)
    gate = decide_comparison(replace(PLAIN, relevant=relevant), measured, both(1.0), alpha=ALPHA)

    assert (gate == ("met", True)) == (decide_comparison(margin, measured, both(1.0), alpha=ALPHA) == ("met", True))


def test_a_relevant_difference_counts_in_the_family():
    assert RELEVANT.shares_alpha
    smaller, other = (comparison(evidence(reading(-0.09, -0.12, -0.06, 0.03)), RELEVANT) for _ in range(2))

    assert verdict(smaller).state == "missed"
    assert verdict(smaller, family_size=2).state == "met"
    assert other.contrast.subject("v2") == "a: v2 vs v1 (relevant 0.05)"


# -- reasons --------------------------------------------------------------------------------------------------------

REASONS = [
    (
        (-0.0004, -0.0007, -0.0001, 0.001),
        "proven equivalent: worse by 0.0004, below the relevant 0.05 (one-sided bounds -0.0007 and -0.0001)",
    ),
    (
        (0.0004, 0.0001, 0.0007, 0.001),
        "proven equivalent: better by 0.0004, below the relevant 0.05 (one-sided bounds +0.0001 and +0.0007)",
    ),
    (
        (0.0, -0.01, 0.01, 0.9),
        "proven equivalent: no difference of the relevant 0.05 or more (one-sided bounds -0.01 and +0.01)",
    ),
    ((0.03, -0.01, 0.07, 0.2), "proven not worse by the relevant 0.05 (one-sided bounds -0.01 and +0.07)"),
    ((0.09, 0.06, 0.12, 0.001), "an improvement is proven (one-sided bounds +0.06 and +0.12)"),
    (
        (-0.04, -0.06, -0.02, 0.001),
        "a regression is proven; that it is worse by the relevant 0.05 or more is not excluded (one-sided bounds -0.06 and -0.02)",
    ),
    (
        (-0.09, -0.12, -0.06, 0.001),
        "a regression is proven, and so is that it is worse by more than the relevant 0.05 (one-sided bounds -0.12 and -0.06)",
    ),
    (
        (-0.04, -0.09, 0.01, 0.2),
        "no regression is proven, and the relevant 0.05 is not excluded (one-sided bounds -0.09 and +0.01); "
        "about n=700 would decide at this difference (80 % power)",
    ),
]


@pytest.mark.parametrize(("measured", "reason"), REASONS)
def test_the_reason_of_a_relevant_difference(measured, reason):
    assert verdict(comparison(evidence(reading(*measured)), RELEVANT, needed=700)).reason == reason


def test_the_reason_of_a_ratio_counts_times_the_baseline():
    share = replace(PLAIN, relevant=0.1, is_relative=True)
    seconds = Ratio(name="ratio of geometric means", value=1.02, interval=None, higher_is_better=False)
    slower = replace(comparison(evidence(reading(-0.02, -0.03, -0.01, 0.001)), share), ratio=seconds)

    assert verdict(slower).reason == (
        "proven equivalent: worse (1.02 times the baseline), below the relevant 10 % "
        "(one-sided bounds 1.01 and 1.03 times the baseline)"
    )


# -- lost samples ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worst", "state", "reason"),
    [
        (
            reading(-0.08, -0.11, -0.05, 0.001),
            "undecided",
            "met on the scored samples; the 2 lost samples could make it missed",
        ),
        (
            reading(-0.02, -0.06, 0.02, 0.4),
            "met",
            "a regression of the relevant 0.05 is excluded on the scored samples; the 2 lost samples could hide one",
        ),
    ],
)
def test_lost_samples_may_hide_a_relevant_regression(worst, state, reason):
    measured = evidence(reading(0.0, -0.03, 0.03, 0.9), worst, reading(0.02, -0.01, 0.04, 0.2))
    ruled = verdict(comparison(measured, RELEVANT, lost=2))

    assert (ruled.state, ruled.proven, ruled.reason) == (state, False, reason)


def test_lost_samples_that_may_be_a_relevant_improvement_leave_no_proof_of_equivalence():
    measured = evidence(
        reading(0.0, -0.03, 0.03, 0.9), reading(-0.01, -0.04, 0.02, 0.6), reading(0.03, -0.0, 0.06, 0.1)
    )
    ruled = verdict(comparison(measured, RELEVANT, lost=2))

    assert (ruled.state, ruled.proven) == ("met", True)
    assert ruled.reason == "proven not worse by the relevant 0.05 (one-sided bounds -0.03 and +0.03)"


# -- memory ---------------------------------------------------------------------------------------------------------

PAST = PastComparison(
    run="r1", started="2026-01-01T00:00:00", arms=(1, 2), has_new_replies=(True, True),
    subject="a: candidate vs baseline (relevant 0.05)", is_pooled=True, missed=True, proven=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "state"),
    [
        ((-0.02, -0.03, -0.01, 0.001), "met"),  # worse, as was proven, and now known to be below what matters
        ((-0.04, -0.09, 0.01, 0.2), "missed"),
        ((0.04, -0.06, 0.12, 0.001), "missed"),
    ],
)
def test_only_proof_below_the_relevant_difference_ends_a_proven_regression(measured, state):
    ours = comparison(evidence(reading(*measured)), RELEVANT)
    look = Look(number=2, replies=(40, 40), since="2026-01-01", proven_in=PAST)
    whole = replace(analysis(ours), looks={RELEVANT.subject("v2"): look})
    compared = (replace(ours, p_adjusted=measured[3]),)
    (ruled,) = decide_verdicts([replace(whole, comparisons=compared)], alpha=ALPHA, strict=False, family_size=1)

    assert (ruled.state, ruled.proven) == (state, True)


GOOD, WEAK, BAD = reading(0.9, 0.85, 0.95), reading(0.9, 0.7, 0.95), reading(0.5, 0.4, 0.6)
NOTHING = BoundedValue(value=None)


def without(observed: BoundedValue, *, worst=None, lost=0) -> ReducedEvidence:
    return ReducedEvidence(
        evidence=evidence(observed, worst=worst), n=231, lost=lost, excluded=69, reason="match train.jsonl"
    )


@pytest.mark.parametrize(
    ("whole", "rest", "state", "proven", "reason"),
    [
        (GOOD, GOOD, "met", True, "one-sided bound 0.85 >= target 0.80"),
        (GOOD, WEAK, "met", False, "proven on 300 samples, unproven without the 69 that match train.jsonl"),
        (GOOD, BAD, "undecided", False, "met on 300 samples, missed without the 69 that match train.jsonl"),
        (WEAK, BAD, "undecided", False, "met on 300 samples, missed without the 69 that match train.jsonl"),
        (WEAK, NOTHING, "undecided", False, "met on 300 samples, undecided without the 69 that match train.jsonl"),
        (BAD, GOOD, "undecided", False, "missed on 300 samples, met without the 69 that match train.jsonl"),
        (BAD, BAD, "missed", True, "one-sided bound 0.6 < target 0.80"),
    ],
)  # fmt: skip
def test_a_target_holds_only_if_it_holds_without_excluded_samples(whole, rest, state, proven, reason):
    result = replace(target_result("a >= 0.80", evidence(whole), n=300), reduced=without(rest))

    decided = verdict(result)

    assert (decided.state, decided.proven, decided.reason) == (state, proven, reason)


def test_a_target_that_needs_proof_is_undecided_where_the_proof_is_lost():
    result = replace(target_result("a >= 0.80", evidence(GOOD), n=300, decide="bound"), reduced=without(WEAK))

    assert verdict(result).reason == "met on 300 samples, undecided without the 69 that match train.jsonl"


def test_lost_samples_are_weighed_among_those_that_are_left():
    result = replace(target_result("a >= 0.80", evidence(GOOD), n=300), reduced=without(GOOD, worst=BAD, lost=5))

    assert verdict(result).state == "undecided"


def test_a_partial_selection_is_not_decided_again():
    result = replace(target_result("a >= 0.80", evidence(GOOD), n=300), reduced=without(BAD))

    assert verdict(result, selected=7).reason == "only 7 of 100 samples were selected"


def test_a_regression_must_be_proven_without_excluded_samples():
    worse, unclear = reading(-0.2, p=0.001), reading(-0.05, p=0.3)
    proven = replace(comparison(evidence(worse)), reduced=without(worse))

    assert verdict(proven).state == "missed"
    assert verdict(replace(proven, reduced=without(unclear))).reason == (
        "missed on 100 samples, met without the 69 that match train.jsonl"
    )


def test_the_p_value_without_excluded_samples_is_corrected_as_the_whole_is():
    worse = replace(comparison(evidence(reading(-0.2, p=0.001))), reduced=without(reading(-0.2, p=0.04)))

    assert verdict(worse, family_size=1).state == "missed"
    assert verdict(worse, family_size=2).state == "undecided"


SETTLED = st.builds(Settled, st.sampled_from(["met", "missed", "undecided"]), st.booleans(), st.just(""))


@given(whole=SETTLED, rest=SETTLED)
def test_leaving_samples_out_never_decides_or_proves_anything(whole, rest):
    decided = decide_without_excluded(whole, 300, rest, without(GOOD))

    assert decided.state in (whole.state, "undecided")
    assert whole.proven or not decided.proven
    assert not decided.proven or (decided.state == rest.state and rest.proven) or whole.state == "undecided"


MET = Verdict(nodeid="t.py::t", subject="a >= 0.5", kind="target", state="met", proven=True, reason="bound")
MISSED = replace(MET, subject="b >= 0.5", state="missed")
UNPROVEN = replace(MISSED, proven=False)
BROKEN = replace(MET, subject="c >= 0.5", state="undecided", proven=False, suite_error=True)


@pytest.fixture
def complete():
    inputs = analysis_inputs(arm(a=[True] * 5))
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


@pytest.fixture
def ended(complete):
    return replace(complete, ended="the session ended after stage smoke")


def test_without_an_early_end_verdicts_stay(complete):
    assert list(leave_open(complete, [MET, MISSED, UNPROVEN])) == [MET, MISSED, UNPROVEN]


def test_a_proven_miss_stays_and_everything_else_is_undecided(ended):
    verdicts = list(leave_open(ended, [MET, MISSED, UNPROVEN, BROKEN]))

    assert [(verdict.state, verdict.proven) for verdict in verdicts] == [
        ("undecided", False), ("missed", True), ("undecided", False), ("undecided", False)
    ]  # fmt: skip
    assert verdicts[0].reason == "the session ended after stage smoke"
    assert verdicts[3].suite_error


def test_a_target_out_of_reach_is_missed_and_nothing_else_is_proven(ended):
    out = replace(ended, out_of_reach=("a >= 0.5",))

    assert [(entry.state, entry.proven) for entry in leave_open(out, [MET, MISSED])] == [
        ("missed", False), ("undecided", False)
    ]  # fmt: skip
