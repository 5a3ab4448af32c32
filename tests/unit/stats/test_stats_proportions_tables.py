"""Contingency tables: Fisher's exact inference against enumeration, chi-square and its effects."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chndtr, ive

from pytest_crucible.stats.proportions.contingency import (
    chi2_goodness_of_fit,
    chi2_independence,
    noncentrality_interval,
)
from pytest_crucible.stats.proportions.fisher import conditional_odds_ratio, fisher_exact
from pytest_crucible.stats.proportions.two import pooled_z_p_value

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
CELLS = st.integers(0, 25)
SQUARES = st.tuples(CELLS, CELLS, CELLS, CELLS).map(lambda cells: [list(cells[:2]), list(cells[2:])])


def hypergeometric(table) -> dict[int, Fraction]:
    """Exact weights of all first cells, given the margins."""
    (a, b), (c, d) = table
    first, total = a + b, math.comb(a + b + c + d, a + c)
    return {
        k: Fraction(math.comb(first, k) * math.comb(c + d, a + c - k), total)
        for k in range(max(0, a - d), min(first, a + c) + 1)
    }


@given(SQUARES)
def test_fisher_is_the_sum_over_all_tables(table):
    weights, a = hypergeometric(table), table[0][0]
    extreme = sum(weight for weight in weights.values() if weight <= weights[a])
    ties = sum(weight for weight in weights.values() if weight == weights[a])
    least, most = (sum(w for k, w in weights.items() if sign * k >= sign * a) for sign in (1, -1))

    assert fisher_exact(table).p_value == pytest.approx(float(extreme), rel=1e-10)
    assert fisher_exact(table, mid_p=True).p_value == pytest.approx(float(extreme - ties / 2), rel=1e-10)
    assert fisher_exact(table, alternative="greater").p_value == pytest.approx(float(least), rel=1e-10)
    assert fisher_exact(table, alternative="less").p_value == pytest.approx(float(most), rel=1e-10)
    assert fisher_exact(table, two_sided="central").p_value == pytest.approx(
        min(1.0, float(2 * min(least, most))), rel=1e-10
    )


@given(SQUARES, LEVELS)
def test_exact_limits_are_where_the_tails_have_the_error(table, level):
    weights, a = hypergeometric(table), table[0][0]
    effect = conditional_odds_ratio(table, level=level)

    def tail(odds: float, sign: int) -> float:
        tilted = {k: float(weight) * odds ** (k - a) for k, weight in weights.items()}
        return math.fsum(w for k, w in tilted.items() if sign * k >= sign * a) / math.fsum(tilted.values())

    if effect.interval.low > 0:
        assert tail(effect.interval.low, 1) == pytest.approx((1 - level) / 2, rel=1e-8)
    if effect.interval.high < math.inf:
        assert tail(effect.interval.high, -1) == pytest.approx((1 - level) / 2, rel=1e-8)
    if effect.value is not None:
        assert effect.interval.low <= effect.value <= effect.interval.high


@given(SQUARES)
def test_the_conditional_odds_ratio_makes_the_first_cell_expected(table):
    weights, a = hypergeometric(table), table[0][0]
    value = conditional_odds_ratio(table).value

    if value not in (None, 0.0, math.inf):
        tilted = {k: float(weight) * value ** (k - a) for k, weight in weights.items()}
        mean = math.fsum(k * weight for k, weight in tilted.items()) / math.fsum(tilted.values())
        assert mean == pytest.approx(a, rel=1e-9)


@given(SQUARES, LEVELS)
def test_central_and_one_sided_fisher_agree_with_their_limits(table, level):
    for facts in ({"two_sided": "central"}, {"alternative": "greater"}, {"alternative": "less"}):
        result = fisher_exact(table, level=level, **facts)
        if abs(result.p_value - (1 - level)) > 1e-9:
            excludes = result.interval.low > 1 or result.interval.high < 1
            assert excludes == (result.p_value < 1 - level)
    for facts in ({}, {"mid_p": True}):
        result = fisher_exact(table, level=level, **facts)
        excludes = result.interval.low > 1 or result.interval.high < 1
        assert result.interval == conditional_odds_ratio(table, level=level).interval
        assert bool(result.note) == (result.status == "degenerate" or excludes != (result.p_value < 1 - level))


@given(SQUARES)
def test_swapping_rows_inverts_the_conditional_odds_ratio_and_keeps_p(table):
    one, other = conditional_odds_ratio(table), conditional_odds_ratio(table[::-1])

    assert fisher_exact(table[::-1]).p_value == pytest.approx(fisher_exact(table).p_value, rel=1e-9)
    assert one.interval.low == pytest.approx(1 / other.interval.high if other.interval.high else math.inf, rel=1e-9)
    if one.value:
        assert one.value == pytest.approx(1 / other.value if other.value else math.inf, rel=1e-9)


def test_large_and_lopsided_tables():
    # With these margins and odds l / 10^8 the first cell has the weights l^k / k!^2 but for 1e-4, so the mean is
    # sqrt(l) I1(2 sqrt(l)) / I0(2 sqrt(l)).
    root = math.sqrt(conditional_odds_ratio([[1, 9999], [9999, 1]]).value * 1e8)
    assert root * ive(1, 2 * root) / ive(0, 2 * root) == pytest.approx(1.0, rel=1e-3)
    assert conditional_odds_ratio([[5100, 4900], [5000, 5000]]).value == pytest.approx(1.0408, rel=1e-3)
    # P(all 500 successes in one arm of 500 and 500) = 1 / C(1000, 500): far below what 1 - cdf could hold.
    assert fisher_exact([[500, 0], [0, 500]]).p_value == pytest.approx(float(Fraction(2, math.comb(1000, 500))))


def test_an_empty_margin_says_nothing_about_the_odds():
    for table in ([[0, 0], [4, 6]], [[0, 4], [0, 6]], [[0, 0], [0, 0]]):
        result = fisher_exact(table)

        assert (result.status, result.p_value, result.estimate) == ("degenerate", 1.0, None)
        assert result.note
        assert conditional_odds_ratio(table).interval.high == math.inf


@pytest.mark.parametrize("table", [[[1, 2, 3], [1, 2, 3]], [[1, 2]], [[1, -2], [3, 4]], [[1, 2.5], [3, 4]]])
def test_what_is_no_table_of_counts_is_refused(table):
    with pytest.raises(ValueError, match=r"\d"):
        fisher_exact(table)


# -- chi-square ---------------------------------------------------------------------------------------------------


@given(SQUARES.filter(lambda table: all(map(sum, table)) and all(a + b for a, b in zip(*table, strict=True))))
def test_the_chi_square_of_two_arms_is_the_pooled_z_squared(table):
    (a, b), (c, d) = table

    result = chi2_independence(table)

    assert result.p_value == pytest.approx(pooled_z_p_value(a, a + b, c, c + d), rel=1e-9)
    assert result.p_value <= chi2_independence(table, correction=True).p_value <= 1


TABLES = st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=2, max_size=4).filter(
    lambda table: sum(map(sum, table)) > 1
)


@given(TABLES, LEVELS)
def test_effects_exclude_0_exactly_when_the_chi_square_test_rejects(table, level):
    result = chi2_independence(table, level=level)

    assert 0 <= result.p_value <= 1
    for effect in result.effects:
        if effect.interval is not None and abs(result.p_value - (1 - level)) > 1e-9:
            assert (effect.interval.low > 0) == (result.p_value < 1 - level)
            assert effect.interval.low <= effect.interval.high
    if result.status == "ok":
        v, corrected, w = (effect.value for effect in result.effects)
        assert 0 <= v <= 1
        assert v <= w + 1e-12
        assert corrected is None or corrected <= 1 + 1e-12


@given(TABLES)
def test_order_and_orientation_of_a_table_do_not_matter(table):
    turned = [list(column)[::-1] for column in zip(*table, strict=True)]

    assert chi2_independence(turned).p_value == pytest.approx(chi2_independence(table).p_value, rel=1e-9)


def test_rows_without_counts_are_left_out_and_said_so():
    result = chi2_independence([[12, 8, 5], [0, 0, 0], [7, 11, 14]])

    assert result.dof == (2.0,)
    assert "1 row or column without counts left out" in result.note
    assert result.p_value == chi2_independence([[12, 8, 5], [7, 11, 14]]).p_value
    assert chi2_independence([[3, 4], [0, 0]]).status == "degenerate"
    assert "an exact test is safer" in chi2_independence([[3, 1], [1, 3]]).note


def test_perfect_association_has_v_1():
    assert chi2_independence([[20, 0], [0, 20]]).effects[0].value == pytest.approx(1.0)
    assert chi2_independence([[20, 0, 0], [0, 20, 0], [0, 0, 20]]).effects[2].value == pytest.approx(math.sqrt(2))


def test_chi_square_refuses_what_is_no_count():
    for table in ([[1, -1], [2, 3]], [[1, 0.5], [2, 3]]):
        with pytest.raises(ValueError, match="1 of 4 cells are not counts"):
            chi2_independence(table)
    with pytest.raises(ValueError, match="1 of 4 matrix entries are NaN"):
        chi2_independence([[1, math.nan], [2, 3]])


def test_goodness_of_fit_by_hand_and_at_its_edges():
    """Expected 20 each: (4 + 4 + 100 + 100) / 20 = 10.4."""
    assert chi2_goodness_of_fit([18, 22, 30, 10]).statistic == pytest.approx(10.4)
    assert chi2_goodness_of_fit([50, 30, 20], [0.5, 0.3, 0.2]).p_value == 1.0
    assert chi2_goodness_of_fit([0, 0]).status == "insufficient_data"
    with pytest.raises(ValueError, match="2 positive shares"):
        chi2_goodness_of_fit([5, 5], [0.5, 0.4])
    with pytest.raises(ValueError, match="3 positive shares"):
        chi2_goodness_of_fit([5, 5, 5], [0.5, 0.5])
    with pytest.raises(ValueError, match="at least 2 outcomes, not 1"):
        chi2_goodness_of_fit([5])


@given(st.floats(0, 400), st.integers(1, 20), LEVELS)
def test_noncentrality_ends_put_the_statistic_into_the_tails(statistic, dof, level):
    interval = noncentrality_interval(statistic, dof, level=level)

    assert 0 <= interval.low <= interval.high
    for end, share in ((interval.low, (1 + level) / 2), (interval.high, (1 - level) / 2)):
        if end > 0:
            assert chndtr(statistic, dof, end) == pytest.approx(share, rel=1e-6)
        else:
            assert chndtr(statistic, dof, 0.0) <= share + 1e-12
    with pytest.raises(ValueError, match="dof above 0"):
        noncentrality_interval(1.0, 0)


def test_numpy_tables_are_tables():
    assert chi2_independence(np.array([[18, 7], [9, 16]])).p_value == pytest.approx(0.010656374721291413)
    assert fisher_exact(np.array([[18, 7], [9, 16]])).p_value == pytest.approx(0.022241295691722503)
