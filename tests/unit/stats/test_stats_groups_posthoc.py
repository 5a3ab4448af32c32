"""Pairs of independent arms: the studentized range, Tukey, Games and Howell, and Dunnett."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.special import ndtr, stdtr

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.groups.many_to_one import dunnett, many_t_tail
from pytest_crucible.stats.groups.posthoc import games_howell, tukey_hsd
from pytest_crucible.stats.groups.studentized import (
    average_over_scale,
    critical_value,
    studentized_range_critical,
    studentized_range_tail,
)
from pytest_crucible.stats.means.two_samples import student_t, welch_t

SCORES = st.integers(0, 100).map(lambda score: score / 100)
GROUPS = st.lists(st.lists(SCORES, min_size=2, max_size=6), min_size=2, max_size=4)
PAIRS = GROUPS.filter(lambda groups: len(groups) == 2)
POSTHOC = [tukey_hsd, games_howell, dunnett]
few = settings(max_examples=choose_examples(25))


@pytest.mark.parametrize("q", [1e-3, 1.0, 5.0, 50.0, 400.0])
@pytest.mark.parametrize("dof", [1, 2.5, 30, 1000, 1e6])
def test_the_range_of_two_is_a_t_statistic_in_the_far_tail_as_well(q, dof):
    wanted = float(2 * stdtr(dof, -q / math.sqrt(2)))

    assert studentized_range_tail(q, 2, dof) == pytest.approx(wanted, rel=1e-11)
    assert many_t_tail(q / math.sqrt(2), np.array([0.3]), dof, two_sided=True) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize(("q", "arms", "dof"), [(3.5, 3, 24), (4.0, 4, 2), (6.0, 10, 30), (0.1, 3, 10), (2.0, 3, 1)])
def test_the_range_agrees_with_another_quadrature(q, arms, dof):
    from scipy.stats import studentized_range

    assert studentized_range_tail(q, arms, dof) == pytest.approx(float(studentized_range.sf(q, arms, dof)), rel=1e-9)


@pytest.mark.parametrize(
    ("arms", "dof", "tabled"), [(3, 10, 3.877), (5, 20, 4.232), (10, 60, 4.646), (3, math.inf, 3.314)]
)
def test_critical_ranges_are_those_of_the_tables(arms, dof, tabled):
    assert studentized_range_critical(0.05, arms, dof) == pytest.approx(tabled, abs=0.0006)


@pytest.mark.parametrize(("candidates", "dof", "tabled"), [(2, 10, 2.57), (4, 20, 2.65), (9, 60, 2.77)])
def test_critical_values_of_dunnett_are_those_of_his_tables(candidates, dof, tabled):
    loadings = np.full(candidates, math.sqrt(0.5))

    critical = critical_value(lambda t: many_t_tail(t, loadings, dof, two_sided=True), 0.05)

    assert critical == pytest.approx(tabled, abs=0.006)


def test_uncorrelated_limits_multiply_when_the_scale_is_known():
    weak = np.full(3, 1e-9)

    assert many_t_tail(2.0, weak, math.inf, two_sided=True) == pytest.approx(1 - (1 - 2 * ndtr(-2.0)) ** 3, rel=1e-9)
    assert many_t_tail(-0.5, weak, math.inf, two_sided=False) == pytest.approx(1 - ndtr(-0.5) ** 3, rel=1e-9)


@pytest.mark.parametrize("two_sided", [True, False])
def test_unequal_loadings_agree_with_simulated_correlated_t_statistics(two_sided):
    loadings, dof, draws = np.array([0.5, 0.8, 0.97]), 8, 200_000
    rng = np.random.default_rng(20240501)
    own = rng.standard_normal((draws, 3)) * np.sqrt(1 - loadings**2)
    scale = np.sqrt(rng.chisquare(dof, draws) / dof)
    statistics = (own + loadings * rng.standard_normal((draws, 1))) / scale[:, None]
    largest = (np.abs(statistics) if two_sided else statistics).max(axis=1)

    assert many_t_tail(1.9, loadings, dof, two_sided=two_sided) == pytest.approx(np.mean(largest > 1.9), abs=0.004)


@given(st.floats(0.3, 3e5), st.floats(-3, 3))
def test_the_average_over_the_scale_has_the_moments_of_chi(dof, log_reach):
    reach = math.exp(log_reach)

    assert average_over_scale(np.ones_like, reach, dof) == pytest.approx(1, rel=1e-10)
    assert average_over_scale(np.square, reach, dof) == pytest.approx(1, rel=1e-10)


@given(st.floats(1e-9, 0.999), st.integers(2, 12), st.floats(1, 1e4))
@few
def test_the_critical_range_has_the_tail_that_it_promises(alpha, arms, dof):
    assert studentized_range_tail(studentized_range_critical(alpha, arms, dof), arms, dof) == pytest.approx(
        alpha, rel=1e-9
    )


@pytest.mark.slow
@given(PAIRS)
@few
def test_with_two_groups_all_are_the_t_test(groups):
    assume(all(np.ptp(group) > 0 for group in groups))
    student, welch = student_t(*groups), welch_t(*groups)
    to_baseline = dunnett(groups, baseline=1)[0]

    for pair, t in ((tukey_hsd(groups)[0], student), (games_howell(groups)[0], welch), (to_baseline, student)):
        assert (pair.difference, pair.statistic) == pytest.approx((t.estimate, t.statistic), abs=1e-12)
        assert pair.p_adjusted == pytest.approx(t.p_value, rel=1e-9)
        assert pair.p_value == pytest.approx(t.p_value, rel=1e-9)
        assert pair.interval.low == pytest.approx(t.interval.low, rel=1e-7, abs=1e-9)
        assert pair.interval.high == pytest.approx(t.interval.high, rel=1e-7, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("test", POSTHOC)
@given(groups=GROUPS, level=st.sampled_from([0.8, 0.95]))
@few
def test_interval_and_p_agree_and_the_family_never_makes_a_pair_surer(test, groups, level):
    for pair in test(groups, level=level):
        assert 0 <= pair.p_value <= pair.p_adjusted + 1e-12 <= 1 + 1e-12
        if pair.status == "ok":
            assume(abs(pair.p_adjusted - (1 - level)) > 1e-9)
            assert pair.interval.low <= pair.difference <= pair.interval.high
            assert (pair.interval.low > 0 or pair.interval.high < 0) == (pair.p_adjusted < 1 - level)


@pytest.mark.slow
@pytest.mark.parametrize("test", [tukey_hsd, games_howell])
@given(groups=GROUPS, shift=st.integers(-50, 50))
@few
def test_reversing_the_arms_flips_the_signs_and_a_shift_changes_nothing(test, groups, shift):
    plain = {(one.first, one.second): one for one in test(groups)}
    moved = test([[value + shift for value in group] for group in groups[::-1]])
    last = len(groups) - 1

    for other in moved:
        one = plain[last - other.second, last - other.first]
        assert other.difference == pytest.approx(-one.difference, abs=1e-12)
        assert other.p_adjusted == pytest.approx(one.p_adjusted, rel=1e-6)


@given(GROUPS)
@few
def test_one_sided_dunnett_is_turned_over_by_the_sign_of_the_values(groups):
    upwards = dunnett(groups, alternative="greater")
    downwards = dunnett([[-value for value in group] for group in groups], alternative="less")

    for one, other in zip(upwards, downwards, strict=True):
        assert one.p_adjusted == pytest.approx(other.p_adjusted, rel=1e-9)
        if one.status == "ok":
            assert (one.interval.high, other.interval.low) == (math.inf, -math.inf)
            assert one.interval.low == pytest.approx(-other.interval.high, abs=1e-12)


def test_dunnett_is_surer_than_tukey_and_bonferroni():
    groups = [[1, 2, 3, 4], [3, 4, 5, 6], [2, 3, 4, 7]]
    against_baseline = dunnett(groups)[0]

    assert against_baseline.p_value < against_baseline.p_adjusted < tukey_hsd(groups)[0].p_adjusted
    assert against_baseline.p_adjusted < 2 * against_baseline.p_value


def test_the_baseline_may_stand_anywhere():
    groups = [[1, 2, 4], [2, 3, 3], [5, 6, 9]]
    first, last = dunnett(groups), dunnett([groups[1], groups[2], groups[0]], baseline=2)

    assert [(one.first, one.second) for one in last] == [(0, 2), (1, 2)]
    assert [one.p_adjusted for one in last] == [one.p_adjusted for one in first]


@pytest.mark.parametrize("test", POSTHOC)
def test_groups_without_variation_leave_only_counting(test):
    equal, *_, apart = test([[1.0] * 4, [1.0] * 4, [0.0] * 5])
    family = 2 if test is dunnett else 3

    assert (equal.difference, equal.statistic, equal.interval, equal.p_adjusted) == (0, None, None, 1)
    assert (abs(apart.difference), apart.statistic, apart.interval, apart.status) == (1, None, None, "degenerate")
    assert apart.p_adjusted == pytest.approx(family * 2 / math.comb(9, 4))


def test_games_howell_answers_pairs_with_one_constant_group():
    pairs = games_howell([[1.0, 1.0, 1.0], [2.0, 2.0], [1.0, 2.0, 4.0]])

    assert [pair.status for pair in pairs] == ["degenerate", "ok", "ok"]
    assert pairs[1].dof == pytest.approx(2)


@pytest.mark.parametrize("test", POSTHOC)
def test_what_is_no_group_is_refused(test):
    with pytest.raises(ValueError, match="1 of 2"):
        test([[1.0, math.nan], [1.0, 2.0]])
    with pytest.raises(NotEnoughData, match="at least 2"):
        test([[1.0], [2.0]])


@pytest.mark.parametrize("baseline", [-1, 2])
def test_a_baseline_that_does_not_exist_is_refused(baseline):
    with pytest.raises(ValueError, match="one of 2 groups"):
        dunnett([[1, 2], [1, 2]], baseline=baseline)
