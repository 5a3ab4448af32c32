"""Ranks of several arms: Kruskal-Wallis, Dunn, Friedman, Iman and Davenport, Nemenyi."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.groups.same_samples import friedman, iman_davenport, mean_ranks, nemenyi
from pytest_crucible.stats.multiplicity.adjust import adjust
from pytest_crucible.stats.proportions.paired import tango_p_value
from pytest_crucible.stats.ranks.many_arms import dunn, kruskal_wallis
from pytest_crucible.stats.tails import normal_p_value

LIKERT = st.integers(1, 5)
GROUPS = st.lists(st.lists(LIKERT, min_size=1, max_size=8), min_size=2, max_size=5)
BLOCKS = [friedman, iman_davenport]


@st.composite
def matrices(draw: st.DrawFn, columns: int | None = None) -> np.ndarray:
    k = columns or draw(st.integers(2, 5))
    n = draw(st.integers(2, 9))
    return np.array(draw(st.lists(st.lists(LIKERT, min_size=k, max_size=k), min_size=n, max_size=n)), dtype=float)


@given(GROUPS.filter(lambda groups: len(groups) == 2))
def test_with_two_groups_kruskal_wallis_is_mann_whitney_without_correction(groups):
    x, y = (np.array(group, dtype=float) for group in groups)
    wins = float(np.sum(x[:, None] > y) + 0.5 * np.sum(x[:, None] == y))
    n, (_, ties) = x.size + y.size, np.unique(np.concatenate([x, y]), return_counts=True)
    variance = x.size * y.size / 12 * (n + 1 - np.sum(ties**3 - ties) / (n * (n - 1)))
    found, pair = kruskal_wallis(groups), dunn(groups)[0]

    if variance == 0:
        assert (found.statistic, found.p_value, pair.statistic, pair.p_adjusted) == (None, 1, None, 1)
    else:
        z = (wins - x.size * y.size / 2) / math.sqrt(variance)
        assert found.statistic == pytest.approx(z * z, abs=1e-12)
        assert found.p_value == pytest.approx(normal_p_value(z), rel=1e-9)
        assert pair.statistic == pytest.approx(z, abs=1e-12)


@given(matrices(columns=2))
def test_with_two_columns_friedman_is_the_sign_test_by_its_normal_law(matrix):
    gained, lost = int(np.sum(matrix[:, 0] > matrix[:, 1])), int(np.sum(matrix[:, 0] < matrix[:, 1]))

    found = friedman(matrix)

    assert found.p_value == pytest.approx(tango_p_value(gained, lost, len(matrix)), rel=1e-9)


@given(GROUPS, st.data())
def test_only_the_order_of_the_values_matters(groups, data):
    plain = kruskal_wallis(groups)
    bent = kruskal_wallis([[value**3 - 0.5 for value in data.draw(st.permutations(group))] for group in groups])
    reordered = kruskal_wallis(data.draw(st.permutations(groups)))

    for other in (bent, reordered):
        assert other.status == plain.status
        assert other.p_value == pytest.approx(plain.p_value, rel=1e-9)
    assert 0 <= plain.p_value <= 1
    assert 0 <= plain.effects[0].value <= 1 + 1e-12


@pytest.mark.parametrize("test", BLOCKS)
@given(matrix=matrices(), data=st.data())
def test_blocks_and_columns_may_come_in_any_order_and_on_any_scale(test, matrix, data):
    rows = data.draw(st.permutations(range(matrix.shape[0])))
    columns = data.draw(st.permutations(range(matrix.shape[1])))
    plain = test(matrix)
    other = test((np.exp(matrix) + 10 * np.arange(len(matrix))[:, None])[rows][:, columns])

    assert other.status == plain.status
    assert other.p_value == pytest.approx(plain.p_value, rel=1e-9)
    assert 0 <= plain.p_value <= 1
    assert 0 <= plain.effects[0].value <= 1 + 1e-12


@given(GROUPS, st.sampled_from(["bonferroni", "holm", "hochberg", "hommel", "BH", "BY"]))
def test_dunn_adjusts_its_own_p_values(groups, method):
    pairs, plain = dunn(groups, adjustment=method), dunn(groups, adjustment="none")

    assert [one.p_value for one in pairs] == [one.p_adjusted for one in plain]
    assert [one.p_adjusted for one in pairs] == adjust([one.p_value for one in plain], method)


@given(GROUPS)
def test_the_weighted_squares_of_dunn_are_kruskal_wallis(groups):
    found, pairs = kruskal_wallis(groups), dunn(groups)
    assume(found.statistic is not None)
    sizes, n = found.n, sum(found.n)
    # Sum of n_i n_j (R_i - R_j)^2 / N is the sum of squares between the groups.
    between = sum(sizes[one.first] * sizes[one.second] * one.difference**2 for one in pairs) / n
    variance = pairs[0].se ** 2 / (1 / sizes[pairs[0].first] + 1 / sizes[pairs[0].second])

    assert between / variance == pytest.approx(found.statistic, rel=1e-9, abs=1e-12)


@given(matrices(), st.sampled_from([0.8, 0.95]))
@settings(max_examples=choose_examples(40))
def test_nemenyi_has_an_interval_that_agrees_with_its_p_value(matrix, level):
    ranks = mean_ranks(matrix)

    for pair in nemenyi(matrix, level=level):
        assume(abs(pair.p_adjusted - (1 - level)) > 1e-9)
        assert pair.difference == pytest.approx(ranks[pair.first] - ranks[pair.second])
        assert pair.interval.low <= pair.difference <= pair.interval.high
        assert (pair.interval.low > 0 or pair.interval.high < 0) == (pair.p_adjusted < 1 - level)
        assert pair.p_value <= pair.p_adjusted + 1e-12


def test_the_critical_difference_is_that_of_demsars_table():
    pair = nemenyi(np.random.default_rng(1).random((30, 5)))[0]

    assert pair.interval.high - pair.difference == pytest.approx(2.728 * math.sqrt(5 * 6 / (6 * 30)), rel=5e-4)


def test_mean_ranks_by_hand_with_ties_and_rounding():
    assert mean_ranks([[0.1 + 0.2, 0.3, 0.1], [1.0, 2.0, 3.0]]) == [1.75, 2.25, 2.0]
    assert kruskal_wallis([[0.1 + 0.2, 0.3], [0.3, 0.3]]).status == "degenerate"


@pytest.mark.parametrize("test", BLOCKS)
def test_rows_that_are_all_tied_show_no_difference(test):
    found = test(np.ones((4, 3)))

    assert (found.statistic, found.p_value, found.status) == (None, 1.0, "degenerate")
    assert (found.effects[0].name, found.effects[0].value) == ("kendalls w", 0.0)


def test_rows_that_all_rank_alike_have_full_agreement_and_a_counted_p():
    found = iman_davenport([[1, 2, 3], [2, 5, 9], [0, 1, 8], [3, 4, 7]])

    assert (found.statistic, found.status) == (None, "degenerate")
    assert found.effects[0].value == pytest.approx(1)
    assert found.p_value == pytest.approx(6.0**-3)


def test_every_value_its_own_group_has_no_eta_squared():
    effects = {one.name: one.value for one in kruskal_wallis([[1], [2], [3]]).effects}

    assert effects == {"epsilon squared": pytest.approx(1), "eta squared h": None}


@pytest.mark.parametrize("test", [kruskal_wallis, dunn])
def test_what_is_no_group_is_refused(test):
    with pytest.raises(ValueError, match="2 of 3"):
        test([[1.0, math.nan, math.inf], [1.0]])
    with pytest.raises(ValueError, match="1 are empty"):
        test([[], [1.0]])


@pytest.mark.parametrize("test", [friedman, iman_davenport, nemenyi])
def test_what_is_no_matrix_of_samples_and_arms_is_refused(test):
    with pytest.raises(ValueError, match="1 of 4"):
        test([[1.0, math.nan], [1.0, 2.0]])
    with pytest.raises(ValueError, match="at least 2"):
        test([[1.0], [2.0]])
    with pytest.raises(NotEnoughData, match="1 row"):
        test([[1.0, 2.0]])


def test_an_unknown_adjustment_is_refused():
    with pytest.raises(ValueError, match="sidak"):
        dunn([[1], [2]], adjustment="sidak")
