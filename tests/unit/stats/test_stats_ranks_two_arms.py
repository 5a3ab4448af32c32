"""Rank tests, dominance and shifts of two independent arms: by hand, by enumeration, and against scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.ranks import exact
from pytest_crucible.stats.ranks.brunner import brunner_munzel
from pytest_crucible.stats.ranks.ranking import arms_by_level, doubled_ranks
from pytest_crucible.stats.ranks.shifts import hodges_lehmann
from pytest_crucible.stats.ranks.sums import sum_of_rank
from pytest_crucible.stats.ranks.superiority import cles, cles_interval, cliffs_delta, dominance
from pytest_crucible.stats.ranks.two_samples import mann_whitney

ALTERNATIVES = ("two-sided", "greater", "less")
MIRRORED = {"two-sided": "two-sided", "greater": "less", "less": "greater"}
GRADES = st.integers(1, 5).map(float)
SCORES = st.integers(-500, 500).map(lambda value: value / 100)
ARM = st.lists(st.one_of(GRADES, SCORES), min_size=1, max_size=15)
SMALL_ARM = st.lists(GRADES, min_size=1, max_size=4)
SEPARATED = [0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15]


def wins(first, second):
    return sum((a > b) + (a == b) / 2 for a in first for b in second)


def enumerated(first, second, alternative):
    """P-value over every way of calling n1 of the pooled values the candidate's."""
    pooled, half = first + second, len(first) * len(second) / 2
    observed, distribution = wins(first, second), []
    for chosen in itertools.combinations(range(len(pooled)), len(first)):
        rest = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        distribution.append(wins([pooled[i] for i in chosen], rest))
    extreme = {
        "two-sided": [abs(u - half) >= abs(observed - half) for u in distribution],
        "greater": [u >= observed for u in distribution],
        "less": [u <= observed for u in distribution],
    }[alternative]
    return sum(extreme) / len(distribution)


@settings(deadline=None, max_examples=choose_examples(60))
@given(SMALL_ARM, SMALL_ARM, st.sampled_from(ALTERNATIVES))
def test_the_exact_law_is_the_enumeration_of_all_assignments(first, second, alternative):
    p_value = mann_whitney(first, second, method="exact", alternative=alternative).p_value

    assert p_value == pytest.approx(enumerated(first, second, alternative), abs=1e-14)


@given(ARM, ARM)
def test_dominance_counts_every_pair(first, second):
    counts = dominance(first, second)

    assert counts.greater == sum(a > b for a in first for b in second)
    assert counts.equal == sum(a == b for a in first for b in second)
    assert counts.less == sum(a < b for a in first for b in second)
    assert counts.cles == pytest.approx((1 + counts.delta) / 2)


@settings(deadline=None)
@given(ARM, ARM, st.sampled_from(ALTERNATIVES), st.sampled_from(["exact", "asymptotic"]))
def test_swapping_the_arms_mirrors_mann_whitney(first, second, alternative, method):
    one = mann_whitney(first, second, alternative=alternative, method=method)
    other = mann_whitney(second, first, alternative=MIRRORED[alternative], method=method)

    assert one.statistic + other.statistic == len(first) * len(second)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-12)
    assert one.estimate == pytest.approx(-other.estimate, abs=1e-15)
    assert (one.interval is None) == (other.interval is None)
    if one.interval:
        assert one.interval.low == -other.interval.high
        assert one.interval.high == -other.interval.low
    assert one.effects[0].interval.low == pytest.approx(1 - other.effects[0].interval.high, abs=1e-12)


@settings(deadline=None)
@given(ARM, ARM)
def test_ranks_see_only_the_order(first, second):
    def stretched(values):
        return [math.exp(value) + value for value in values]

    plain, curved = mann_whitney(first, second), mann_whitney(stretched(first), stretched(second))

    assert (plain.statistic, plain.p_value, plain.z) == (curved.statistic, curved.p_value, curved.z)
    assert [effect.value for effect in plain.effects] == [effect.value for effect in curved.effects]


@settings(deadline=None)
@given(ARM, ARM, st.sampled_from([0.5, 0.8, 0.95, 0.99]), st.sampled_from(["exact", "asymptotic"]))
def test_p_values_lie_in_the_unit_interval_and_intervals_contain_their_estimates(first, second, level, method):
    result = mann_whitney(first, second, level=level, method=method)

    assert 0 < result.p_value <= 1
    assert 0 <= result.effects[0].interval.low <= result.effects[0].value <= result.effects[0].interval.high <= 1
    assert result.effects[0].interval.low < result.effects[0].interval.high
    if result.interval:
        assert result.interval.low <= result.estimate <= result.interval.high
        assert result.interval.low < result.interval.high


@settings(deadline=None)
@given(
    st.lists(st.integers(-3000, 3000), min_size=4, max_size=24, unique=True),
    st.sampled_from(["exact", "asymptotic"]),
    st.booleans(),
    st.sampled_from([0.6, 0.77, 0.951]),
)
def test_without_ties_p_and_shift_interval_never_contradict_each_other(values, method, correction, level):
    half = len(values) // 2
    result = mann_whitney(values[:half], values[half:], method=method, correction=correction, level=level)
    excluded = result.interval.low > 0 or result.interval.high < 0

    assert excluded == (result.p_value < 1 - level)


def test_agreement_with_scipy_for_tied_asymptotic_and_untied_exact():
    from scipy import stats

    rng = np.random.default_rng(3)
    for n1, n2 in ((8, 13), (30, 21)):
        first, second = rng.integers(1, 6, n1), rng.integers(1, 6, n2)
        untied = rng.permutation(n1 + n2).astype(float)
        for alternative in ALTERNATIVES:
            for correction in (True, False):
                theirs = stats.mannwhitneyu(
                    first, second, alternative=alternative, method="asymptotic", use_continuity=correction
                )
                ours = mann_whitney(first, second, alternative=alternative, method="asymptotic", correction=correction)
                assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-10)
                assert ours.statistic == theirs.statistic
            theirs = stats.mannwhitneyu(untied[:n1], untied[n1:], alternative=alternative, method="exact")
            ours = mann_whitney(untied[:n1], untied[n1:], alternative=alternative, method="exact")
            assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-12)


def test_separated_small_arms_by_hand():
    result = mann_whitney(*SEPARATED)

    assert result.p_value == pytest.approx(2 / math.comb(8, 4))
    assert result.statistic == 16
    assert (result.interval.low, result.interval.high) == pytest.approx((0.5, 0.85))
    assert [effect.value for effect in result.effects] == [1.0, 1.0]


def test_three_against_three_cannot_reach_95_percent_and_says_so_with_infinite_ends():
    result = mann_whitney([4, 5, 6], [1, 2, 3])

    assert (result.interval.low, result.interval.high) == (-math.inf, math.inf)
    assert result.p_value == pytest.approx(0.1)
    assert result.estimate == 3


def test_all_values_equal_is_degenerate_with_no_effect_at_all():
    result = mann_whitney([3.0] * 5, [3.0] * 4, method="asymptotic")

    assert (result.status, result.statistic, result.p_value, result.z) == ("degenerate", 10.0, 1.0, None)
    assert [effect.value for effect in result.effects] == [0.5, 0.0]
    assert result.interval is None
    assert mann_whitney([3.0], [3.0]).p_value == 1.0


def test_a_shift_interval_that_ties_shrink_to_a_point_is_refused():
    result = mann_whitney([1.0] * 30 + [2.0], [1.0] * 30 + [0.0])

    assert (result.interval, result.estimate, result.status) == (None, 0.0, "ok")
    assert "ties" in result.note


def test_sums_of_tenths_tie_as_they_do_on_paper():
    assert mann_whitney([0.1 + 0.2], [0.3]).statistic == 0.5
    assert doubled_ranks(np.array([0.3, 0.1 + 0.2, 0.1]))[0].tolist() == [5, 5, 2]


def test_values_at_the_edge_of_floats_are_ranked_without_overflow():
    assert mann_whitney([1.0, 5e-324], [0.0, -1e308], method="asymptotic").statistic == 4
    assert [array.tolist() for array in arms_by_level([1e308], [-1e308])] == [[0, 1], [1, 0]]


@pytest.mark.parametrize("function", [mann_whitney, hodges_lehmann, dominance, cles, cliffs_delta, brunner_munzel])
def test_missing_values_and_empty_arms_are_refused(function):
    with pytest.raises(ValueError, match="1 of 3 candidate values are NaN"):
        function([1.0, math.nan, 2.0], [1.0, 2.0])
    with pytest.raises(NotEnoughData, match="0 candidate"):
        function([], [1.0, 2.0])


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="alternative must be"):
        mann_whitney([1, 2], [3, 4], alternative="two.sided")
    with pytest.raises(ValueError, match="method must be"):
        mann_whitney([1, 2], [3, 4], method="normal")
    with pytest.raises(ValueError, match="level must lie"):
        mann_whitney([1, 2], [3, 4], level=95)
    with pytest.raises(ValueError, match="at most 40000 pairs"):
        mann_whitney(range(300), range(300), method="exact")
    with pytest.raises(ValueError, match="interval must be"):
        cliffs_delta([1, 2], [3, 4], interval="wald")


def test_auto_follows_the_number_of_values_alone():
    tied, untied = np.arange(100) % 5, np.arange(100) + 0.5

    assert mann_whitney(tied[:50], tied[50:]).method == "mann-whitney, exact"
    assert mann_whitney(untied, tied).method == "mann-whitney, exact"
    assert mann_whitney(untied, np.append(tied, 3)).method == "mann-whitney, asymptotic, continuity corrected"


def test_exact_and_asymptotic_meet_at_the_limit_of_auto():
    rng = np.random.default_rng(5)
    first, second = rng.integers(1, 6, 100), rng.integers(1, 6, 100) + (rng.random(100) < 0.3)
    exactly, roughly = (mann_whitney(first, second, method=method) for method in ("exact", "asymptotic"))

    assert exactly.p_value == pytest.approx(roughly.p_value, rel=0.05)
    assert exactly.p_value < 0.2


@pytest.mark.parametrize(("n1", "n2"), [(1, 7), (3, 4), (9, 6), (20, 20)])
def test_the_untied_law_matches_counting_in_whole_numbers(n1, n2):
    counts = [1] + [0] * (n1 * n2)
    for i in range(1, min(n1, n2) + 1):
        for k in range(n1 * n2, max(n1, n2) + i - 1, -1):
            counts[k] -= counts[k - max(n1, n2) - i]
        for k in range(i, n1 * n2 + 1):
            counts[k] += counts[k - i]
    total = math.comb(n1 + n2, n1)

    assert sum(counts) == total
    for u in range(n1 * n2 + 1):
        assert exact.untied_wins_tail(n1, n2, u) == pytest.approx(sum(counts[: u + 1]) / total, rel=1e-13)


def test_the_tied_law_joins_the_untied_one_and_is_a_law():
    untied = [1] * 14
    for doubled in range(0, 2 * 48 + 1, 2):
        slow = exact._tied_counts(untied, 6, doubled).sum() / math.comb(14, 6)
        assert exact.wins_tail(untied, 6, doubled) == pytest.approx(slow, rel=1e-13)
    assert exact.wins_tail([3, 1, 5, 2], 4, 2 * 4 * 7) == pytest.approx(1.0)
    assert exact.wins_tail([3, 1, 5, 2], 4, -1) == 0.0


# -- shifts ---------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(ARM, ARM)
def test_the_shift_is_the_median_of_all_differences(first, second):
    differences = [a - b for a in first for b in second]

    assert hodges_lehmann(first, second).value == float(np.median(differences))


@settings(deadline=None)
@given(ARM, ARM, st.integers(-100, 100))
def test_moving_one_arm_moves_the_shift(first, second, move):
    plain = hodges_lehmann(first, second, level=0.8)
    moved = hodges_lehmann([value + move for value in first], second, level=0.8)

    assert moved.value == pytest.approx(plain.value + move, abs=1e-9)


@pytest.mark.parametrize("kind", ["smooth", "grades", "hundredths", "wild", "equal"])
def test_selection_among_a_million_sums_equals_sorting_them(kind):
    rng = np.random.default_rng(11)
    draw = {
        "smooth": lambda n: rng.normal(size=n),
        "grades": lambda n: rng.integers(1, 6, n).astype(float),
        "hundredths": lambda n: rng.integers(0, 100, n) / 100,
        "wild": lambda n: np.exp(25 * rng.normal(size=n)),
        "equal": lambda n: np.full(n, 0.1),
    }[kind]
    rows, columns = draw(300), np.sort(-draw(500))
    everything = np.sort((rows[:, None] + columns).ravel())
    upper = np.sort((columns[:, None] + columns)[np.triu_indices(500)])

    for rank in (1, 17, 40_000, 75_000, 150_000):
        assert sum_of_rank(rows, columns, np.zeros(300, dtype=np.intp), rank) == everything[rank - 1]
    for rank in (1, 60_000, 125_250):
        assert sum_of_rank(columns, columns, np.arange(500), rank) == upper[rank - 1]


def test_ten_thousand_values_need_no_matrix():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.25, 1, 10_000), rng.normal(0, 1, 10_000)
    effect = hodges_lehmann(first, second)
    below = np.searchsorted(np.sort(second), first - effect.value).sum()

    assert below == pytest.approx(5e7, abs=2)
    assert effect.interval.low < 0.25 < effect.interval.high
    assert effect.interval.high - effect.interval.low < 0.08


# -- dominance ------------------------------------------------------------------------------------------------------


def test_newcombe_keeps_an_interval_for_separated_arms():
    effect = cles([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15, 0.05])
    t, n, z2 = effect.interval.low, 3.5, 1.959963984540054**2

    assert effect.interval.high == 1.0
    assert 0.5 < t < 0.7
    # The end solves Newcombe's equation with 1 - t divided out of both sides.
    assert 1 - t == pytest.approx(z2 * t * (1 + n * (1 - t) / (2 - t) + n * t / (1 + t)) / 20, rel=1e-12)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.999]))
def test_newcombe_contains_the_share_mirrors_and_widens_with_the_level(first, second, share, level):
    interval, mirrored = cles_interval(share, first, second, level=level), cles_interval(1 - share, first, second)

    assert 0 <= interval.low <= share + 1e-15
    assert share - 1e-15 <= interval.high <= 1
    assert interval.low < interval.high
    assert cles_interval(share, first, second).low == pytest.approx(1 - mirrored.high, abs=1e-9)
    wider = cles_interval(share, first, second, level=(1 + level) / 2)
    assert wider.low <= interval.low
    assert interval.high <= wider.high


def test_newcombe_refuses_what_is_no_share_of_two_arms():
    with pytest.raises(ValueError, match=r"1\.2 of 5, 6"):
        cles_interval(1.2, 5, 6)
    with pytest.raises(ValueError, match="of 0, 6"):
        cles_interval(0.5, 0, 6)


@given(
    st.lists(GRADES, min_size=2, max_size=12),
    st.lists(GRADES, min_size=2, max_size=12),
    st.sampled_from(["newcombe", "feng-cliff", "fisher"]),
)
def test_cliffs_delta_mirrors_and_stays_inside_its_interval(first, second, interval):
    one, other = cliffs_delta(first, second, interval=interval), cliffs_delta(second, first, interval=interval)

    assert one.value == -other.value
    assert one.se == (None if other.se is None else pytest.approx(other.se))
    assert (one.interval is None) == (other.interval is None)
    if one.interval:
        assert -1 <= one.interval.low <= one.value <= one.interval.high <= 1
        assert one.interval.low == pytest.approx(-other.interval.high, abs=1e-12)


@given(st.lists(GRADES, min_size=2, max_size=8), st.lists(GRADES, min_size=2, max_size=8))
def test_the_error_of_delta_is_that_of_the_dominance_matrix(first, second):
    matrix = np.sign(np.subtract.outer(first, second))
    n1, n2 = matrix.shape
    rows, columns = matrix.mean(axis=1).var(ddof=1), matrix.mean(axis=0).var(ddof=1)
    inside = ((matrix - matrix.mean()) ** 2).sum() / ((n1 - 1) * (n2 - 1))
    expected = math.sqrt(((n2 - 1) * rows + (n1 - 1) * columns + inside) / (n1 * n2))

    assert (cliffs_delta(first, second).se or 0.0) == pytest.approx(expected, abs=1e-9)


def test_separated_arms_have_only_newcombes_interval():
    for interval in ("feng-cliff", "fisher"):
        effect = cliffs_delta([5, 6, 7], [1, 2], interval=interval)
        assert (effect.value, effect.interval, effect.se) == (1.0, None, None)
        assert "newcombe" in effect.note
    assert -1 < cliffs_delta([5, 6, 7], [1, 2]).interval.low < 1


# -- Brunner-Munzel -------------------------------------------------------------------------------------------------


def test_brunner_munzel_agrees_with_scipy_on_swapped_arms():
    from scipy import stats

    rng = np.random.default_rng(4)
    first, second = rng.integers(1, 6, 17), rng.normal(3, 2, 11).round()
    for alternative in ALTERNATIVES:
        ours = brunner_munzel(first, second, alternative=alternative)
        theirs = stats.brunnermunzel(second, first, alternative=MIRRORED[alternative])
        assert (ours.statistic, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-12)


@given(
    st.lists(GRADES, min_size=2, max_size=10), st.lists(GRADES, min_size=2, max_size=10), st.sampled_from(ALTERNATIVES)
)
def test_swapping_the_arms_mirrors_brunner_munzel(first, second, alternative):
    one = brunner_munzel(first, second, alternative=alternative)
    other = brunner_munzel(second, first, alternative=MIRRORED[alternative])

    assert 0 <= one.p_value <= 1
    assert one.p_value == pytest.approx(other.p_value)
    assert one.estimate + other.estimate == pytest.approx(1)
    assert one.status == other.status
    assert (one.interval is None) == (one.status == "degenerate")


@given(st.lists(GRADES, min_size=2, max_size=10), st.lists(GRADES, min_size=2, max_size=10))
def test_the_brunner_munzel_interval_excludes_a_half_exactly_when_p_is_small(first, second):
    result = brunner_munzel(first, second, level=0.87)

    if result.interval:
        excluded = not result.interval.low <= 0.5 <= result.interval.high
        assert excluded == (result.p_value < 0.13)


@pytest.mark.parametrize(
    ("first", "second"),
    [([1, 2, 3], [5, 6, 7, 8, 9]), ([9, 9], [1, 2, 3]), ([4, 4, 5], [1, 1]), ([1, 1], [2, 2]), ([7, 8], [1, 1, 1])],
)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_separated_arms_get_the_exact_p_value(first, second, alternative):
    result = brunner_munzel(first, second, alternative=alternative)

    assert (result.status, result.statistic, result.interval) == ("degenerate", None, None)
    assert result.estimate in (0.0, 1.0)
    assert result.p_value == pytest.approx(enumerated(first, second, alternative))
    assert 0 <= result.effects[0].interval.low < result.effects[0].interval.high <= 1


def test_brunner_munzel_of_equal_values_has_p_1_and_of_single_values_nothing():
    result = brunner_munzel([2, 2, 2], [2, 2])

    assert (result.p_value, result.estimate, result.status) == (1.0, 0.5, "degenerate")
    with pytest.raises(NotEnoughData, match="at least 2 of each"):
        brunner_munzel([1], [1, 2, 3])
