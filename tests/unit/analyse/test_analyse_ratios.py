"""Comparisons of amounts: by the ratio of geometric means, by the median of the ratios where there are zeros, never by a mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_analyse_comparisons import compared

from pytest_crucible.gate import decide_comparison
from pytest_crucible.plan.contrasts import parse_contrast
from pytest_crucible.records import MetricFacts

SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
SPEED = MetricFacts(name="m", kind="positive", low=0.0)
NUMBER = MetricFacts(name="m", kind="unbounded")
RNG = np.random.default_rng(5)
SLOW = RNG.lognormal(0, 0.8, 400)
LOGS = RNG.normal(0, 0.2, 400)
FAST = SLOW * np.exp(LOGS - LOGS.mean()) / 1.25


def decided(one, alpha=0.05):
    return decide_comparison(one.contrast, one.evidence.observed, one.p_value, alpha=alpha)


def margin(value, alternative=None):
    return parse_contrast("m", margin=value, alternative=alternative)


def test_an_amount_is_compared_by_the_ratio_of_geometric_means():
    one = compared(FAST, SLOW, SECONDS)

    assert one.ratio.name == "ratio of geometric means"
    assert one.ratio.value == pytest.approx(1 / 1.25)
    assert one.difference == pytest.approx(math.log(1.25))  # shorter is better
    assert one.ratio.interval.low < 0.8 < one.ratio.interval.high < 1
    assert (one.method, one.evidence.method) == ("gaffke of logarithms",) * 2
    assert one.p_value < 1e-6
    assert decided(one) == ("met", True)


def test_the_arms_exchanged_are_the_mirrored_result():
    one, other = compared(FAST, SLOW, SECONDS), compared(SLOW, FAST, SECONDS)

    assert decided(other) == ("missed", True)
    assert other.p_value == pytest.approx(one.p_value, rel=1e-6)
    assert other.ratio.value == pytest.approx(1 / one.ratio.value)
    assert other.ratio.interval.low == pytest.approx(1 / one.ratio.interval.high)


def test_where_more_is_better_a_larger_ratio_is():
    one = compared(SLOW, FAST, SPEED)

    assert one.ratio.value == pytest.approx(1.25)
    assert decided(one) == ("met", True)


@pytest.mark.parametrize(("share", "state"), [("10 %", "missed"), ("60 %", "met"), ("25 %", "undecided")])
def test_a_share_as_the_margin_applies_to_the_ratio(share, state):
    one = compared(SLOW, FAST, SECONDS, contrast=margin(share))

    assert decided(one) == (state, state != "undecided")
    assert one.needed is None if state == "undecided" else one.needed < 400


@pytest.mark.parametrize(("share", "state"), [("60 %", "met"), ("10 %", "missed")])
def test_equivalence_holds_on_both_sides(share, state):
    assert decided(compared(SLOW, FAST, SECONDS, contrast=margin(share, "equivalent")))[0] == state
    assert decided(compared(FAST, SLOW, SECONDS, contrast=margin(share, "equivalent")))[0] == state


def test_a_margin_in_units_asks_for_the_mean_which_needs_bounds():
    unknown = compared(SLOW, FAST, SECONDS, contrast=margin(5.0))
    known = compared(SLOW, FAST, MetricFacts(name="m", kind="positive", low=0.0, high=60.0), contrast=margin(20.0))

    assert unknown.ratio is known.ratio is None
    assert unknown.difference == pytest.approx(float(np.mean(FAST - SLOW)))
    assert decided(unknown) == ("undecided", False)
    assert (unknown.p_value, unknown.detectable, unknown.needed) == (None, None, None)
    assert "declare bounds of 'm', or write the margin as a share" in unknown.note
    assert decided(known) == ("met", True)


@pytest.mark.parametrize("kind", ["unbounded", "count"])
@pytest.mark.parametrize("contrast", [margin(None), margin(None, "superior"), margin(0.5)])
def test_a_difference_of_means_without_bounds_is_shown_and_never_proven(kind, contrast):
    facts = MetricFacts(name="m", kind=kind, low=0.0 if kind == "count" else -math.inf)
    one = compared(SLOW, 0.1 * SLOW, facts, contrast=contrast)

    assert one.difference == pytest.approx(0.9 * SLOW.mean())
    assert one.interval.low > 0
    assert decided(one) == ("undecided", False)
    assert (one.p_value, one.p_exact, one.evidence.weakest_p_value) == (None, None, None)
    assert "declare bounds of 'm'" in one.note


def test_equal_ratios_prove_as_much_as_their_number_allows():
    few, many = compared([1.1] * 20, [1.0] * 20, SECONDS), compared([1.1] * 900, [1.0] * 900, SECONDS)

    assert few.ratio.value == many.ratio.value == pytest.approx(1.1)
    assert decided(few) == ("met", False)  # a twentieth of unseen samples could outweigh them
    assert decided(many) == ("missed", True)


def test_groups_are_the_unit():
    groups = np.repeat(np.arange(80), 5)
    alone, grouped = (
        compared(SLOW, SLOW * np.repeat(np.exp(RNG.normal(0.1, 0.2, 80)), 5), SECONDS, clusters=labels)
        for labels in (None, groups)
    )

    assert grouped.clusters == 80
    assert np.ptp([grouped.interval.low, grouped.interval.high]) > 1.5 * np.ptp(
        [alone.interval.low, alone.interval.high]
    )


def test_too_few_groups_show_a_ratio_and_say_why_there_is_no_more():
    one = compared(SLOW[:8], FAST[:8], SECONDS, clusters=[0, 1] * 4)

    assert one.ratio.value > 1
    assert (one.interval, decided(one)) == (None, ("undecided", False))
    assert "at least 5" in one.note


# -- zeros --------------------------------------------------------------------------------------------------------


def test_with_zeros_the_median_of_the_ratios_is_compared():
    baseline = np.where(np.arange(400) % 10, SLOW, 0.0)
    one = compared(1.2 * baseline, baseline, SECONDS)

    assert one.ratio.name == "median of the samples' ratios"
    assert one.ratio.value == pytest.approx(1.2)
    assert (one.method, decided(one)) == ("order statistics", ("missed", True))
    assert "80 of 800 values are 0" in one.note


def test_a_share_as_the_margin_applies_to_the_median_too():
    baseline = np.where(np.arange(400) % 10, SLOW, 0.0)
    noisy = baseline * np.exp(RNG.normal(0, 0.2, 400))

    assert decided(compared(noisy, baseline, SECONDS, contrast=margin("20 %"))) == ("met", True)
    assert decided(compared(1.5 * noisy, baseline, SECONDS, contrast=margin("20 %"))) == ("missed", True)


def test_one_zero_is_an_infinite_ratio_that_only_counts():
    baseline = np.where(np.arange(400) % 10, SLOW, 0.0)
    candidate = np.where(np.arange(400) % 7, SLOW, 0.0)
    one = compared(candidate, baseline, SECONDS)

    assert one.ratio.value == 1.0
    assert decided(one) == ("met", False)


def test_where_most_are_zero_nothing_is_proven_and_it_says_so():
    baseline = np.where(np.arange(400) % 10, 0.0, SLOW)
    for contrast in (margin(None), margin("10 %")):
        one = compared(5 * baseline, baseline, SECONDS, contrast=contrast)

        assert (one.ratio, decided(one)) == (None, ("undecided", False))
        assert "compare a rate" in one.note
