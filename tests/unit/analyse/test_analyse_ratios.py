"""Comparisons of amounts by their declared ratio: of geometric means, or of means. No value decides which."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_analyse_comparisons import compare

from pytest_crucible.gate.decide import AdjustedPValues, decide_comparison
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import MetricFacts

SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
SPEED = MetricFacts(name="m", kind="positive", low=0.0)
NUMBER = MetricFacts(name="m", kind="unbounded")
RNG = np.random.default_rng(5)
SLOW = RNG.lognormal(0, 0.8, 400)
LOGS = RNG.normal(0, 0.2, 400)
FAST = SLOW * np.exp(LOGS - LOGS.mean()) / 1.25
AMOUNTS = st.one_of(st.just(0.0), st.floats(0.01, 50.0))


def decide(item, alpha=0.05):
    observed = item.evidence.observed
    adjusted = AdjustedPValues(item.p_value, item.proof_p, observed.smallest_p)
    return decide_comparison(item.contrast, observed, adjusted, alpha=alpha)


def margin(value, alternative=None):
    return parse_contrast("m", margin=value, alternative=alternative)


def test_an_amount_is_compared_by_the_ratio_of_geometric_means():
    comparison = compare(FAST, SLOW, SECONDS)

    assert comparison.ratio.name == "ratio of geometric means"
    assert comparison.ratio.value == pytest.approx(1 / 1.25)
    assert comparison.difference == pytest.approx(math.log(1.25))  # shorter is better
    assert comparison.ratio.interval.low < 0.8 < comparison.ratio.interval.high < 1
    assert (comparison.method, comparison.evidence.method) == ("sign flips", "gaffke of logarithms")
    # The permutation test is as small as its draws allow; the bounds prove more.
    assert (comparison.p_value <= 1e-4, comparison.proof_p < 1e-6) == (True, True)
    assert decide(comparison) == ("met", True)


def test_the_arms_exchanged_are_the_mirrored_result():
    comparison, other = compare(FAST, SLOW, SECONDS), compare(SLOW, FAST, SECONDS)

    assert decide(other) == ("missed", True)
    assert (other.p_value, other.proof_p) == pytest.approx((comparison.p_value, comparison.proof_p), rel=1e-6)
    assert other.ratio.value == pytest.approx(1 / comparison.ratio.value)
    assert other.ratio.interval.low == pytest.approx(1 / comparison.ratio.interval.high)


def test_where_more_is_better_a_larger_ratio_is():
    comparison = compare(SLOW, FAST, SPEED)

    assert comparison.ratio.value == pytest.approx(1.25)
    assert decide(comparison) == ("met", True)


@pytest.mark.parametrize(("share", "state"), [("10 %", "missed"), ("60 %", "met"), ("25 %", "undecided")])
def test_a_share_as_the_margin_applies_to_the_ratio(share, state):
    comparison = compare(SLOW, FAST, SECONDS, contrast=margin(share))

    assert decide(comparison) == (state, state != "undecided")
    assert comparison.needed is None if state == "undecided" else comparison.needed < 400


@pytest.mark.parametrize(("share", "state"), [("60 %", "met"), ("10 %", "missed")])
def test_equivalence_holds_on_both_sides(share, state):
    assert decide(compare(SLOW, FAST, SECONDS, contrast=margin(share, "equivalent")))[0] == state
    assert decide(compare(FAST, SLOW, SECONDS, contrast=margin(share, "equivalent")))[0] == state


def test_a_margin_in_units_asks_for_the_mean_which_needs_bounds():
    unknown = compare(SLOW, FAST, SECONDS, contrast=margin(5.0))
    comparison = compare(SLOW, FAST, MetricFacts(name="m", kind="positive", low=0.0, high=60.0), contrast=margin(20.0))

    assert unknown.ratio is comparison.ratio is None
    assert unknown.difference == pytest.approx(float(np.mean(FAST - SLOW)))
    assert decide(unknown) == ("undecided", False)
    assert (unknown.proof_p, unknown.evidence.observed.lower) == (None, None)
    assert "declare bounds of 'm' or its reach, or write the margin as a share" in unknown.note
    assert decide(comparison) == ("met", True)


@pytest.mark.parametrize("kind", ["unbounded", "count"])
@pytest.mark.parametrize(
    ("contrast", "state"), [(margin(None), "met"), (margin(None, "superior"), "undecided"), (margin(0.5), "undecided")]
)
def test_a_difference_of_means_without_bounds_is_tested_and_never_proven(kind, contrast, state):
    facts = MetricFacts(name="m", kind=kind, low=0.0 if kind == "count" else -math.inf)
    comparison = compare(SLOW, 0.1 * SLOW, facts, contrast=contrast)

    assert comparison.difference == pytest.approx(0.9 * SLOW.mean())
    assert comparison.interval.low > 0
    assert decide(comparison) == (state, False)
    assert (comparison.proof_p, comparison.evidence.observed.lower) == (None, None)
    assert "declare bounds of 'm'" in comparison.note


def test_equal_ratios_prove_as_much_as_their_number_allows():
    few, many = compare([1.1] * 20, [1.0] * 20, SECONDS), compare([1.1] * 900, [1.0] * 900, SECONDS)

    assert few.ratio.value == many.ratio.value == pytest.approx(1.1)
    assert decide(few) == ("missed", False)  # a twentieth of unseen samples could outweigh them
    assert decide(many) == ("missed", True)


def test_too_few_groups_show_a_ratio_and_say_why_there_is_no_more():
    comparison = compare(SLOW[:8], FAST[:8], SECONDS, clusters=[0, 1] * 4)

    assert comparison.ratio.value > 1
    assert (comparison.interval, decide(comparison)) == (None, ("undecided", False))
    assert "at least 5" in comparison.note


# -- zeros and the declared estimand ------------------------------------------------------------------------------

BY_MEAN = parse_contrast("mean(m)")
BOUNDED = MetricFacts(name="m", kind="positive", low=0.0, high=60.0, direction="lower")


def three_times_as_long():
    """Return 300 pairs of seconds, of which the candidate takes three times as long on 40 %."""
    rng = np.random.default_rng(3)
    baseline = rng.lognormal(0, 0.5, 300)
    return baseline * np.exp(rng.normal(-0.08, 0.1, 300)) * np.where(np.arange(300) < 120, 3.0, 1.0), baseline


def test_one_zero_is_an_error_and_never_another_estimand():
    candidate, baseline = three_times_as_long()
    assert compare(candidate, baseline, SECONDS).ratio.value > 1.3
    candidate[200] = 0.0
    comparison = compare(candidate, baseline, SECONDS)

    assert comparison.ratio is comparison.difference is comparison.p_value is None
    assert decide(comparison) == ("undecided", False)
    assert comparison.suite_error == comparison.note
    assert comparison.note.startswith("1 of 600 values of 'm' is 0 (v2 1, v1 0)")
    assert comparison.note.endswith("compare mean(m), p50(m) or rate(m > 0) instead")
    assert comparison.pairs == 300


def test_zeros_of_an_amount_compared_by_its_mean_are_values():
    candidate, baseline = three_times_as_long()
    assert decide(compare(candidate, baseline, BOUNDED, contrast=BY_MEAN))[0] == "missed"
    candidate[200] = 0.0
    item, mirrored = (
        compare(*pair, BOUNDED, contrast=BY_MEAN) for pair in ((candidate, baseline), (baseline, candidate))
    )

    assert item.suite_error == ""
    assert decide(item)[0] == "missed"
    assert item.ratio.name == "ratio of means"
    assert item.ratio.value == pytest.approx(candidate.mean() / baseline.mean())
    assert item.evidence.method == "gaffke of x - r y"
    assert mirrored.ratio.value == pytest.approx(1 / item.ratio.value)
    assert mirrored.ratio.interval.low == pytest.approx(1 / item.ratio.interval.high, rel=1e-5)


@given(
    values=st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=6, max_size=30),
    contrast=st.sampled_from([parse_contrast("m"), BY_MEAN, margin("10 %"), margin(5.0)]),
    facts=st.sampled_from([SECONDS, SPEED, BOUNDED]),
)
@settings(deadline=None)
def test_the_values_never_choose_the_ratio(values, contrast, facts):
    candidate, baseline = np.array(values).T
    comparison = compare(candidate, baseline, facts, contrast=contrast)

    expected = {"m": "ratio of geometric means", "mean(m)": "ratio of means"}[contrast.expression]
    names = {expected} if contrast.limit is None or contrast.is_relative else set()
    assert comparison.ratio is None or comparison.ratio.name in names
    zeros = (np.array(values) == 0).any()
    assert bool(comparison.suite_error) == bool(zeros and names == {"ratio of geometric means"})


@pytest.mark.parametrize(
    ("contrast", "state"),
    [(BY_MEAN, "missed"), (parse_contrast("mean(m)", margin="10 %"), "undecided")],
)
def test_a_ratio_of_means_without_an_upper_bound_is_tested_and_never_proven(contrast, state):
    comparison = compare(SLOW, FAST, SECONDS, contrast=contrast)

    assert comparison.ratio.interval.low < SLOW.mean() / FAST.mean() < comparison.ratio.interval.high
    assert decide(comparison) == (state, False)
    assert (comparison.evidence.observed.lower, comparison.proof_p) == (None, None)
    assert comparison.needed is None or contrast.margin is None
    assert "declare bounds of 'm', or compare 'm' alone" in comparison.note


def test_a_share_as_the_margin_applies_to_the_ratio_of_means():
    by_share = {
        share: compare(SLOW, FAST, BOUNDED, contrast=parse_contrast("mean(m)", margin=share))
        for share in ("10 %", "90 %")
    }

    assert decide(by_share["90 %"]) == ("met", True)
    assert decide(by_share["10 %"])[0] != "met"


def test_where_all_values_of_an_arm_are_zero_there_is_no_ratio_of_means():
    comparison = compare(np.zeros(50), np.ones(50), BOUNDED, contrast=BY_MEAN)

    assert (comparison.ratio, comparison.suite_error, decide(comparison)) == (None, "", ("undecided", False))
    assert "all values of an arm are 0" in comparison.note


def test_lost_samples_count_at_the_bounds_of_the_metric():
    slow = SLOW.copy()
    slow[:4] = np.nan
    by_mean = compare(slow, FAST, BOUNDED, contrast=BY_MEAN)
    alone = compare(slow, FAST, MetricFacts(name="m", kind="positive", low=0.01, high=60.0, direction="lower"))
    unknown = compare(slow, FAST, BOUNDED)

    for item in (by_mean, alone):
        assert item.lost == 4
        # Lower is better: at the worst the lost samples of the candidate took 60 seconds.
        assert item.evidence.worst.value < item.evidence.observed.value < item.evidence.best.value
    # A time of 0 has no logarithm.
    assert unknown.evidence.best.value is None


@pytest.mark.parametrize(
    ("facts", "contrast", "spread", "wider"), [(SECONDS, parse_contrast("m"), 0.2, 1.5), (BOUNDED, BY_MEAN, 0.3, 1.0)]
)
def test_groups_are_the_unit_of_a_ratio(facts, contrast, spread, wider):
    factors = np.repeat(np.exp(RNG.normal(0.1, spread, 80)), 5)
    alone, grouped = (
        compare(SLOW, SLOW * factors, facts, clusters=labels, contrast=contrast)
        for labels in (None, np.repeat(np.arange(80), 5))
    )
    widths = [item.interval.high - item.interval.low for item in (alone, grouped)]

    assert grouped.clusters == 80
    assert widths[1] > wider * widths[0]
