"""A regression gate with a relevant difference: what it calls missed, and what it calls proven equivalent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_gate_verdicts import ALPHA, analysis, both, comparison, evidence, reading, verdict

from pytest_crucible.gate import decide_comparison, decide_verdicts
from pytest_crucible.records import Contrast, Look, PastComparison, Ratio

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
def test_what_a_reading_says_beside_a_relevant_difference(value, lower, upper, p, ruling):
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
def test_what_is_missed_is_also_missed_where_smaller_differences_matter(measured, p, smaller, other):
    narrow, wide = (replace(PLAIN, relevant=relevant) for relevant in sorted((smaller, other)))

    if decide_comparison(wide, measured, both(p), alpha=ALPHA)[0] == "missed":
        assert decide_comparison(narrow, measured, both(p), alpha=ALPHA)[0] == "missed"


@given(readings(), relevances)
def test_met_and_proven_is_what_a_margin_of_that_size_proves(measured, relevant):
    margin = replace(PLAIN, alternative="non-inferior", margin=relevant)
    gate = decide_comparison(replace(PLAIN, relevant=relevant), measured, both(1.0), alpha=ALPHA)

    assert (gate == ("met", True)) == (decide_comparison(margin, measured, both(1.0), alpha=ALPHA) == ("met", True))


def test_it_keeps_its_place_in_the_family():
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
def test_a_relevant_difference_says_why(measured, reason):
    assert verdict(comparison(evidence(reading(*measured)), RELEVANT, needed=700)).reason == reason


def test_a_ratio_says_how_many_times_the_baseline():
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
def test_only_proof_that_it_is_below_what_matters_ends_a_proven_regression(measured, state):
    ours = comparison(evidence(reading(*measured)), RELEVANT)
    look = Look(number=2, replies=(40, 40), since="2026-01-01", proven_in=PAST)
    whole = replace(analysis(ours), looks={RELEVANT.subject("v2"): look})
    compared = (replace(ours, p_adjusted=measured[3]),)
    (ruled,) = decide_verdicts([replace(whole, comparisons=compared)], alpha=ALPHA, strict=False, family_size=1)

    assert (ruled.state, ruled.proven) == (state, True)
