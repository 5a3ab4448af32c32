"""Correlations: by hand, by enumeration of all orders, and against scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.counts.correlations import cohens_q, fisher_interval, partial_correlation, pearson
from pytest_crucible.stats.ranks.association import kendall, spearman

ALTERNATIVES = ("two-sided", "greater", "less")
MIRRORED = {"two-sided": "two-sided", "greater": "less", "less": "greater"}
ALL = [pearson, spearman, kendall]
GRADES = st.integers(1, 5)


@st.composite
def pairs(draw, values=GRADES, fewest=3, most=20):
    n = draw(st.integers(fewest, most))
    column = st.lists(values, min_size=n, max_size=n)
    return [float(value) for value in draw(column)], [float(value) for value in draw(column)]


def varying(x, y):
    return len(set(x)) > 1 and len(set(y)) > 1


@settings(deadline=None, max_examples=choose_examples(40))
@given(pairs(most=6), st.sampled_from(ALTERNATIVES))
def test_the_exact_law_of_spearman_is_the_enumeration_of_all_orders(given_pairs, alternative):
    x, y = given_pairs
    assume(varying(x, y))
    first, second = (np.argsort(np.argsort(v)) if len(set(v)) == len(v) else _midranks(v) for v in (x, y))
    distribution = np.array([np.corrcoef(first, order)[0, 1] for order in itertools.permutations(second)])
    observed = np.corrcoef(first, second)[0, 1]
    extreme = {
        "two-sided": abs(distribution) >= abs(observed) - 1e-12,
        "greater": distribution >= observed - 1e-12,
        "less": distribution <= observed + 1e-12,
    }[alternative]
    result = spearman(x, y, method="exact", alternative=alternative)

    assert result.estimate == pytest.approx(observed, abs=1e-12)
    assert result.p_value == pytest.approx(extreme.mean())


def _midranks(values):
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_exact_distribution_of_kendall_is_the_enumeration_of_all_orders(n):
    orders = list(itertools.permutations(range(n)))
    swaps = [sum(a > b for a, b in itertools.combinations(order, 2)) for order in orders]

    for order, seen in zip(orders, swaps, strict=True):
        result = kendall(range(n), order, method="exact", alternative="greater")
        assert result.p_value == pytest.approx(sum(count <= seen for count in swaps) / math.factorial(n))
        assert result.statistic == n * (n - 1) // 2 - seen


@given(pairs(most=15))
def test_tau_counts_every_pair(given_pairs):
    x, y = given_pairs
    assume(varying(x, y))
    twos = list(itertools.combinations(zip(x, y, strict=True), 2))
    signs = [np.sign((a - b) * (c - d)) for (a, c), (b, d) in twos]
    untied = sum(a != b for (a, _), (b, _) in twos) * sum(c != d for (_, c), (_, d) in twos)

    assert kendall(x, y).estimate == pytest.approx(sum(signs) / math.sqrt(untied), abs=1e-12)


def test_agreement_with_scipy():
    from scipy import stats

    rng = np.random.default_rng(9)
    for n in (7, 30, 200):
        x = rng.normal(size=n)
        y = x + rng.normal(size=n)
        grades, others = rng.integers(1, 5, n).astype(float), rng.integers(1, 4, n).astype(float)
        for alternative in ALTERNATIVES:
            for first, second in ((x, y), (grades, others)):
                theirs = stats.pearsonr(first, second, alternative=alternative)
                ours = pearson(first, second, alternative=alternative)
                bounds = theirs.confidence_interval(0.95)
                assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
                assert (ours.interval.low, ours.interval.high) == pytest.approx((bounds.low, bounds.high), rel=1e-9)

                theirs = stats.spearmanr(first, second, alternative=alternative)
                ours = spearman(first, second, method="asymptotic", alternative=alternative)
                assert (ours.estimate, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)

                method = "exact" if first is x and n < 50 else "asymptotic"
                theirs = stats.kendalltau(first, second, alternative=alternative, method=method)
                ours = kendall(first, second, alternative=alternative)
                assert (ours.estimate, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)


@pytest.mark.parametrize("function", ALL)
@given(given_pairs=pairs(fewest=4), alternative=st.sampled_from(ALTERNATIVES))
def test_turning_one_variable_around_turns_the_correlation_around(function, given_pairs, alternative):
    x, y = given_pairs
    one = function(x, y, alternative=alternative)
    other = function(x, [-value for value in y], alternative=MIRRORED[alternative])

    assert one.status == other.status
    if one.estimate is None:
        assert not varying(x, y)
        return
    assert one.estimate == pytest.approx(-other.estimate, abs=1e-12)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)
    assert 0 < one.p_value <= 1
    if one.interval:
        assert -1 <= one.interval.low <= one.estimate <= one.interval.high <= 1
        assert one.interval.low == pytest.approx(-other.interval.high, abs=1e-9)


@pytest.mark.parametrize("function", ALL)
@given(given_pairs=pairs(fewest=4), scale=st.sampled_from([1e-200, 0.001, 3.0, 1e200]))
def test_variables_may_change_places_and_units(function, given_pairs, scale):
    x, y = given_pairs
    plain, changed = function(x, y), function([scale * value for value in y], [2 * value + 1 for value in x])

    assert plain.status == changed.status
    if plain.estimate is not None:
        assert plain.estimate == pytest.approx(changed.estimate, abs=1e-9)
        assert plain.p_value == pytest.approx(changed.p_value, rel=1e-6)


@pytest.mark.parametrize("function", [spearman, kendall])
@given(given_pairs=pairs(fewest=4))
def test_rank_correlations_see_only_the_order(function, given_pairs):
    x, y = given_pairs

    assert function([math.exp(value) for value in x], y) == function(x, y)


@pytest.mark.parametrize("function", ALL)
def test_a_constant_variable_has_no_correlation(function):
    result = function([1.0, 1, 1, 1], [0.1, 0.2, 0.3, 0.5])

    assert (result.status, result.estimate, result.p_value, result.interval) == ("degenerate", None, None, None)
    assert "constant" in result.note


@pytest.mark.parametrize("function", [pearson, spearman])
def test_a_perfect_correlation_counts_orders(function):
    x = [0.1, 0.2, 0.3, 0.4, 0.5]

    rising, falling = function(x, [3 * value - 1 for value in x]), function(x, [-value for value in x])
    assert (rising.status, rising.estimate, rising.interval, rising.statistic) == ("degenerate", 1.0, None, None)
    assert rising.p_value == falling.p_value == pytest.approx(2 / math.factorial(5))
    assert falling.estimate == -1.0
    assert function(x, x, alternative="greater").p_value == pytest.approx(1 / math.factorial(5))
    assert function(x, x, alternative="less").p_value == 1.0
    assert function([1, 1, 2, 2], [5, 5, 9, 9]).p_value == pytest.approx(2 * 2 * 2 / math.factorial(4))
    assert function(range(30), range(30)).p_value == pytest.approx(2 / math.factorial(30))


def test_a_perfect_kendall_keeps_its_exact_p_value():
    result = kendall([1, 2, 3, 4, 5], [2, 4, 6, 8, 10])

    assert (result.estimate, result.interval, result.status) == (1.0, None, "degenerate")
    assert result.p_value == pytest.approx(2 / math.factorial(5))


def test_three_pairs_leave_every_correlation_possible():
    for function in (pearson, spearman, kendall):
        interval = function([1.0, 2, 4], [0.3, 0.1, 0.9]).interval
        assert (interval.low, interval.high) == (-1.0, 1.0)


@pytest.mark.parametrize("function", ALL)
def test_missing_values_unequal_lengths_and_two_pairs_are_refused(function):
    with pytest.raises(ValueError, match="1 of 3 x values are NaN"):
        function([1.0, math.nan, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="equal lengths"):
        function([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(NotEnoughData, match=r"2 pairs"):
        function([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="alternative must be"):
        function([1, 2, 3], [1, 3, 2], alternative="positive")
    with pytest.raises(ValueError, match="level must lie"):
        function([1, 2, 3], [1, 3, 2], level=0)


def test_exact_laws_are_refused_where_they_do_not_exist_or_take_too_long():
    with pytest.raises(ValueError, match="at most 10 pairs"):
        spearman(range(20), range(20), method="exact")
    with pytest.raises(ValueError, match="needs 4 distinct values"):
        kendall([1, 2, 2, 3], [1, 2, 3, 4], method="exact")
    with pytest.raises(ValueError, match="method must be"):
        kendall([1, 2, 2, 3], [1, 2, 3, 4], method="t")


def test_auto_follows_the_number_of_pairs_and_ties():
    x = np.arange(60.0)

    assert spearman(x[:10], x[:10] % 7).method == "spearman, exact"
    assert spearman(x[:11], x[:11] % 7).method == "spearman, asymptotic"
    assert kendall(x[:49], (x * 7 % 61)[:49]).method == "kendall, exact"
    assert kendall(x[:50], (x * 7 % 61)[:50]).method == "kendall, asymptotic"
    assert kendall(x[:20], x[:20] % 5).method == "kendall, asymptotic"


def test_a_large_offset_costs_no_digits():
    x, y = np.array([1.0, 2, 3, 4, 5, 6]), np.array([2.0, 1, 4, 3, 7, 5])

    assert pearson(x + 2.0**40, y).estimate == pytest.approx(pearson(x, y).estimate, rel=1e-14)


# -- partial correlation and Cohen's q ------------------------------------------------------------------------------


def test_partial_correlation_by_its_formula():
    x, y, z = [1, 2, 3, 4, 5, 7], [2, 1, 4, 3, 5, 9], [1, 1, 2, 2, 3, 3]
    xy, xz, yz = (pearson(*both).estimate for both in ((x, y), (x, z), (y, z)))
    expected = (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))
    result = partial_correlation(x, y, z)

    assert result.estimate == pytest.approx(expected, rel=1e-12)
    assert result.dof == (3.0,)
    assert result.interval.high == pytest.approx(math.tanh(math.atanh(expected) + 1.959963984540054 / math.sqrt(2)))


def test_removing_the_same_variable_twice_or_a_constant_removes_nothing_more():
    rng = np.random.default_rng(1)
    x, y, z = rng.normal(size=(3, 20))
    once = partial_correlation(x, y, z)

    for matrix in (np.column_stack((z, 2 * z)), np.column_stack((z, np.full(20, 0.1))), z[:, None] + 5):
        again = partial_correlation(x, y, matrix)
        assert again.estimate == pytest.approx(once.estimate, abs=1e-12)
        assert again.dof == once.dof
    nothing = partial_correlation(x, y, np.full(20, 0.1))
    assert nothing.estimate == pytest.approx(pearson(x, y).estimate)
    assert nothing.p_value == pytest.approx(pearson(x, y).p_value)


def test_what_is_explained_completely_has_no_partial_correlation():
    x, y = [1.0, 2, 3, 4, 5, 6], [2.0, 1, 4, 3, 5, 9]

    assert partial_correlation(x, y, [2 * value + 1 for value in x]).status == "degenerate"
    assert partial_correlation(x, y, [2 * value + 1 for value in x]).estimate is None
    perfect = partial_correlation(x, x, y)
    assert (perfect.status, perfect.p_value, perfect.interval) == ("degenerate", None, None)
    assert perfect.estimate == pytest.approx(1.0)


def test_partial_correlation_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="given needs 4 rows, one for each pair"):
        partial_correlation([1, 2, 3, 4], [2, 1, 4, 3], [1, 2, 3])
    with pytest.raises(ValueError, match="1 of 4 given values"):
        partial_correlation([1, 2, 3, 4], [2, 1, 4, 3], [1, 2, 3, math.nan])
    with pytest.raises(NotEnoughData, match="needs 5 pairs"):
        partial_correlation([1, 2, 3, 4], [2, 1, 4, 3], [[1, 2], [2, 1], [3, 3], [1, 7]])


@given(st.floats(-0.99, 0.99), st.floats(-0.99, 0.99), st.integers(4, 200), st.integers(4, 200))
def test_cohens_q_mirrors_and_never_contradicts_its_interval(first, second, n1, n2):
    one, other = cohens_q(first, n1, second, n2, level=0.9), cohens_q(second, n2, first, n1, level=0.9)

    assert one.estimate == -other.estimate
    assert one.p_value == other.p_value
    assert one.interval.low <= one.estimate <= one.interval.high
    assert (one.interval.low > 0 or one.interval.high < 0) == (one.p_value < 0.1)


def test_cohens_q_by_hand_and_its_refusals():
    result = cohens_q(0.6, 50, 0.3, 60)

    assert result.estimate == pytest.approx(0.5 * math.log(4) - 0.5 * math.log(1.3 / 0.7))
    assert result.se == pytest.approx(math.sqrt(1 / 47 + 1 / 57))
    with pytest.raises(ValueError, match=r"1\.0 and 0\.2"):
        cohens_q(1.0, 50, 0.2, 50)
    with pytest.raises(NotEnoughData, match="3 and 50 pairs"):
        cohens_q(0.5, 3, 0.2, 50)


def test_fisher_intervals_end_at_minus_one_and_one():
    one_sided = fisher_interval(0.5, 0.2, level=0.95, method="fisher", alternative="greater")

    assert one_sided.high == 1.0
    assert one_sided.low == pytest.approx(math.tanh(math.atanh(0.5) - 0.2 * 1.6448536269514722))
    assert fisher_interval(1.0, 0.2, level=0.95, method="fisher") is None
