"""Exact unconditional inference on pairs: symmetry, agreement of test and interval, corners, and many discordant pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats import (
    mcnemar_exact,
    paired_exact_p_value,
    samples_for_zero,
    tango_interval,
    tango_p_value,
)
from pytest_crucible.stats.proportions.exact import (
    LEFT_OUT,
    MANY,
    paired_exact_bound,
    paired_exact_test,
    paired_exact_test_p_value,
)
from pytest_crucible.stats.proportions.paired import tango_statistic, tango_statistics

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
OUTCOMES = st.tuples(*[st.integers(0, 25)] * 3).map(lambda counts: (*counts[:2], sum(counts)))
FEWER = settings(max_examples=choose_examples(60))


@pytest.mark.parametrize(("lost", "p_value"), [(4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_all_of_a_handful_lost_is_as_improbable_as_a_coin_that_falls_so(lost, p_value):
    assert paired_exact_p_value(0, lost, lost) == pytest.approx(p_value, rel=1e-3)


@pytest.mark.parametrize("n", [50, 200, 5000])
def test_four_lost_of_many_are_judged_by_all_that_could_have_been_discordant(n):
    """Given four discordant pairs nothing could be proven, but the number of discordant pairs was not given."""
    assert 0.045 < paired_exact_p_value(0, 4, n) < 0.05 < mcnemar_exact(0, 4)


@given(OUTCOMES, LEVELS, st.sampled_from(["two-sided", "greater", "less"]))
@FEWER
def test_the_interval_excludes_0_exactly_when_p_is_below_alpha(outcome, level, alternative):
    result = paired_exact_test(*outcome, level=level, alternative=alternative)

    assert (result.p_value < 1 - level) == (not result.interval.low <= 0 <= result.interval.high)


@given(OUTCOMES, LEVELS)
@FEWER
def test_the_p_value_alone_is_that_of_the_test(outcome, level):
    assert paired_exact_test_p_value(*outcome, level=level) == paired_exact_test(*outcome, level=level).p_value


@given(OUTCOMES, LEVELS)
@FEWER
def test_swapped_arms_give_the_negative_interval_and_the_same_p_value(outcome, level):
    gained, lost, n = outcome
    result, swapped = paired_exact_test(gained, lost, n, level=level), paired_exact_test(lost, gained, n, level=level)

    assert (result.interval.low, result.interval.high) == (-swapped.interval.high, -swapped.interval.low)
    assert result.p_value == swapped.p_value
    assert -1 <= result.interval.low <= (gained - lost) / max(n, 1) <= result.interval.high <= 1


@given(OUTCOMES.filter(lambda outcome: outcome[0] > outcome[1]))
@FEWER
def test_one_more_gained_pair_is_more_evidence(outcome):
    gained, lost, n = outcome
    more = gained + 1, lost, n + 1

    assert paired_exact_p_value(*more) <= paired_exact_p_value(*outcome) + 1e-4
    assert paired_exact_p_value(*outcome) >= 2 * LEFT_OUT


@given(OUTCOMES, st.sampled_from([0.05, 0.025, 0.01]))
@FEWER
def test_the_bound_is_more_careful_than_without_a_small_sample(outcome, alpha):
    """Tango's limit errs too often by little, so that the exact one is never far inside it."""
    gained, lost, n = outcome
    exact = paired_exact_bound(gained, lost, n, alpha=alpha, side="lower")
    tango = tango_interval(gained, lost, n, level=1 - 2 * alpha).low

    assert exact <= tango + 0.2 / math.sqrt(max(n, 1))


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.2])
def test_without_a_discordant_pair_a_margin_needs_as_many_as_the_rule_of_three_says(margin):
    n = samples_for_zero(margin)

    assert paired_exact_bound(0, 0, n, alpha=0.05, side="lower") > -margin
    assert paired_exact_bound(0, 0, n - 1, alpha=0.05, side="lower") < -margin


def test_corners():
    assert paired_exact_test(0, 0, 0).interval == paired_exact_test(0, 0, 0, level=0.95).interval
    assert (paired_exact_test(0, 0, 0).interval.low, paired_exact_test(0, 0, 0).interval.high) == (-1.0, 1.0)
    assert (paired_exact_test(0, 0, 0).estimate, paired_exact_p_value(0, 0, 30)) == (None, 1.0)
    assert paired_exact_test(8, 0, 8).interval.high == 1.0
    assert paired_exact_test(0, 8, 8).interval.low == -1.0
    assert paired_exact_p_value(3000, 0, 3000) == 2 * LEFT_OUT
    one_sided = paired_exact_test(6, 1, 30, alternative="greater").interval
    assert (one_sided.low > 0, one_sided.high) == (True, math.inf)
    with pytest.raises(ValueError, match="at most n=3"):
        paired_exact_p_value(2, 2, 3)
    with pytest.raises(ValueError, match="side"):
        paired_exact_bound(2, 1, 3, alpha=0.05, side="left")


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(620, 500, 4000), (MANY - 1, MANY + 90, 9000), (MANY, MANY + 90, 9000)]
)
def test_with_many_discordant_pairs_it_is_nearly_the_asymptotic_test(gained, lost, n):
    exact, tango = paired_exact_test(gained, lost, n).interval, tango_interval(gained, lost, n)
    deviation = math.sqrt(gained + lost) / n

    assert paired_exact_p_value(gained, lost, n) == pytest.approx(tango_p_value(gained, lost, n), rel=0.1)
    assert (exact.low, exact.high) == pytest.approx((tango.low, tango.high), abs=0.06 * deviation)


@given(st.lists(OUTCOMES, min_size=1, max_size=5), st.floats(-0.99, 0.99))
def test_statistics_of_many_outcomes_are_those_of_each(outcomes, difference):
    n = max(outcome[2] for outcome in outcomes) + 1
    gained, lost = (np.array([outcome[k] for outcome in outcomes], dtype=float) for k in (0, 1))
    each = [tango_statistic(outcome[0], outcome[1], n, difference) for outcome in outcomes]

    assert tango_statistics(gained, lost, n, difference).tolist() == pytest.approx(each, rel=1e-9, abs=1e-12)
