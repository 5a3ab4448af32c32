"""Signs and ranks of paired differences: by hand, by enumeration of all sign flips, and against scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.proportions.paired import tango_interval, tango_p_value
from pytest_crucible.stats.ranks.ranking import doubled_ranks, rounded_differences
from pytest_crucible.stats.ranks.shifts import pseudo_median
from pytest_crucible.stats.ranks.signed import rank_biserial_paired, sign_test, wilcoxon_signed_rank
from pytest_crucible.stats.ranks.superiority import paired_superiority

ALTERNATIVES = ("two-sided", "greater", "less")
MIRRORED = {"two-sided": "two-sided", "greater": "less", "less": "greater"}
DIFFERENCES = st.integers(-4, 4).map(float)
FEW = st.lists(DIFFERENCES, min_size=1, max_size=9)
MANY = st.lists(st.one_of(DIFFERENCES, st.integers(-500, 500).map(lambda value: value / 100)), min_size=1, max_size=25)


def enumerated(differences, alternative, zero_method):
    """P-value over all sign flips of the non-zero differences, whose mid-ranks count the zeros for pratt only."""
    values = np.array([value for value in differences if value or zero_method == "pratt"])
    if not values.any():
        return 1.0
    ranks = doubled_ranks(np.abs(values))[0][values != 0]
    observed = ranks[values[values != 0] > 0].sum()
    distribution = np.array([ranks @ signs for signs in itertools.product((0, 1), repeat=ranks.size)])
    greater, less = (distribution >= observed).mean(), (distribution <= observed).mean()
    return {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}[alternative]


@settings(deadline=None)
@given(FEW, st.sampled_from(ALTERNATIVES), st.sampled_from(["pratt", "wilcox"]))
def test_the_exact_law_is_the_enumeration_of_all_sign_flips(differences, alternative, zero_method):
    result = wilcoxon_signed_rank(differences, method="exact", alternative=alternative, zero_method=zero_method)

    assert result.p_value == pytest.approx(enumerated(differences, alternative, zero_method), abs=1e-14)


@settings(deadline=None)
@given(
    MANY,
    st.sampled_from(ALTERNATIVES),
    st.sampled_from(["pratt", "wilcox"]),
    st.sampled_from(["exact", "asymptotic"]),
)
def test_swapping_the_arms_mirrors_the_signed_rank_test(differences, alternative, zero_method, method):
    nothing = [0.0] * len(differences)
    options = {"zero_method": zero_method, "method": method}
    one = wilcoxon_signed_rank(differences, nothing, alternative=alternative, **options)
    other = wilcoxon_signed_rank(nothing, differences, alternative=MIRRORED[alternative], **options)

    assert (one.w_plus, one.w_minus) == (other.w_minus, other.w_plus)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-12)
    assert one.estimate == -other.estimate
    assert one.effects[0].value == (None if other.effects[0].value is None else -other.effects[0].value)
    assert (one.interval is None) == (other.interval is None)
    if one.interval:
        assert (one.interval.low, one.interval.high) == (-other.interval.high, -other.interval.low)


@settings(deadline=None)
@given(MANY, st.permutations(range(25)), st.integers(-3, 3))
def test_order_of_pairs_and_a_constant_on_both_arms_change_nothing(differences, order, constant):
    shuffled = [differences[i] for i in order if i < len(differences)]
    moved = [value + constant for value in shuffled]

    assert wilcoxon_signed_rank(moved, [constant] * len(moved)) == wilcoxon_signed_rank(differences)


@settings(deadline=None)
@given(MANY, st.sampled_from(["exact", "asymptotic"]), st.sampled_from([0.6, 0.8, 0.95]))
def test_p_lies_in_the_unit_interval_and_the_interval_contains_the_pseudo_median(differences, method, level):
    result = wilcoxon_signed_rank(differences, method=method, level=level)

    assert 0 < result.p_value <= 1
    assert result.w_plus + result.w_minus == pytest.approx(
        sum(range(1, len(differences) + 1)) - sum(range(1, result.zeros + 1))
    )
    if result.interval:
        assert result.interval.low <= result.estimate <= result.interval.high
        assert result.interval.low < result.interval.high


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=5, max_size=14),
    st.data(),
    st.sampled_from(["exact", "asymptotic"]),
    st.booleans(),
    st.sampled_from([0.71, 0.9, 0.951]),
)
def test_without_ties_p_and_interval_never_contradict_each_other(steps, data, method, correction, level):
    # Powers of two make all averages of two differences distinct and non-zero.
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(steps), max_size=len(steps)))
    differences = [sign * 2.0**exponent for sign, exponent in zip(signs, np.cumsum(steps), strict=True)]
    result = wilcoxon_signed_rank(differences, method=method, correction=correction, level=level)
    excluded = result.interval.low > 0 or result.interval.high < 0

    assert excluded == (result.p_value < 1 - level)


@given(MANY)
def test_the_pseudo_median_is_the_median_of_all_walsh_averages(differences):
    averages = [(a + b) / 2 for i, a in enumerate(differences) for b in differences[i:]]

    assert pseudo_median(differences).value == pytest.approx(float(np.median(averages)), abs=1e-12)


def test_agreement_with_scipy_where_it_is_right():
    from scipy import stats

    rng = np.random.default_rng(8)
    tied, untied = rng.integers(-4, 6, 40).astype(float), rng.normal(0.3, 1, 30)
    for alternative in ALTERNATIVES:
        for correction in (True, False):
            theirs = stats.wilcoxon(
                tied, zero_method="wilcox", correction=correction, alternative=alternative, method="approx"
            )
            ours = wilcoxon_signed_rank(
                tied, zero_method="wilcox", correction=correction, alternative=alternative, method="asymptotic"
            )
            assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-10)
        theirs = stats.wilcoxon(untied, alternative=alternative, method="exact")
        assert wilcoxon_signed_rank(untied, alternative=alternative).p_value == pytest.approx(theirs.pvalue, rel=1e-12)


def test_balanced_signs_among_many_zeros_have_p_1():
    differences = [1.0] * 5 + [0.0] * 40 + [-1.0] * 5
    for method in ("exact", "asymptotic"):
        result = wilcoxon_signed_rank(differences, method=method)

        assert (result.p_value, result.z, result.w_plus, result.w_minus) == (1.0, 0.0, 227.5, 227.5)
        assert (result.zeros, result.n) == (40, (50,))


def test_zeros_count_for_pratt_and_are_dropped_for_wilcox():
    differences = [0.0] * 9 + [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    pratt = wilcoxon_signed_rank(differences)
    wilcox = wilcoxon_signed_rank(differences, zero_method="wilcox")

    assert (pratt.w_plus, wilcox.w_plus) == (sum(range(10, 16)), sum(range(1, 7)))
    assert pratt.p_value == wilcox.p_value == 2 / 2**6
    assert pratt.estimate < wilcox.estimate == 3.5
    assert (wilcox.interval.low, wilcox.interval.high) == (1.0, 6.0)


def test_no_difference_at_all_is_degenerate():
    for zero_method in ("pratt", "wilcox"):
        for method in ("exact", "asymptotic"):
            result = wilcoxon_signed_rank([3.0] * 5, [3.0] * 5, zero_method=zero_method, method=method)

            assert (result.status, result.p_value, result.z, result.interval) == ("degenerate", 1.0, None, None)
            assert (result.zeros, result.estimate, result.effects[0].value) == (5, 0.0, None)


def test_one_pair_says_nothing_and_equal_differences_have_no_interval_of_one_point():
    single = wilcoxon_signed_rank([2.0])
    equal = wilcoxon_signed_rank([0.2] * 8, [0.1] * 8)

    assert (single.p_value, single.estimate) == (1.0, 2.0)
    assert (single.interval.low, single.interval.high) == (-math.inf, math.inf)
    assert (equal.p_value, equal.estimate, equal.interval) == (2 / 2**8, 0.1, None)
    assert "ties" in equal.note


def test_rounding_noise_neither_breaks_ties_nor_makes_differences():
    noisy = wilcoxon_signed_rank([0.3, 0.2, 0.7], [0.2, 0.1, 0.8])

    assert (noisy.w_plus, noisy.w_minus) == (4.0, 2.0)
    assert wilcoxon_signed_rank([0.1 + 0.2, 0.5], [0.3, 0.4]).zeros == 1
    assert rounded_differences([1e6 + 0.3, 3e-9], [1e6 + 0.2, 1e-9]).tolist() == [0.1, 2e-9]


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=20), st.sampled_from([1e-12, 1e-3, 1.0, 1e5, 1e12]))
def test_the_unit_of_the_scores_does_not_change_the_ranks(values, unit):
    plain = wilcoxon_signed_rank([float(value) for value in values])
    scaled = wilcoxon_signed_rank([value * unit for value in values])

    assert (scaled.w_plus, scaled.w_minus, scaled.p_value) == (plain.w_plus, plain.w_minus, plain.p_value)


def test_one_huge_pair_does_not_blur_the_others():
    differences = rounded_differences([1e14, 0.3, 0.2], [1.0, 0.1, 0.1])

    assert differences.tolist() == [99999999999999.0, 0.2, 0.1] or differences[1:].tolist() == [0.2, 0.1]
    assert wilcoxon_signed_rank([1e14, 0.3, 0.2], [1.0, 0.1, 0.1]).w_plus == 6.0


def test_auto_follows_the_number_of_differences_that_are_not_zero():
    def method(nonzero, zeros):
        return wilcoxon_signed_rank([1.0, -2.0] * (nonzero // 2) + [0.0] * zeros).method

    assert method(200, 0) == method(200, 1800) == "wilcoxon signed-rank, exact, pratt"
    assert method(202, 0) == method(200, 1820) == "wilcoxon signed-rank, asymptotic, continuity corrected, pratt"


def test_exact_and_asymptotic_meet_at_the_limit_of_auto():
    differences = np.random.default_rng(6).integers(-5, 7, 200)
    exactly, roughly = (wilcoxon_signed_rank(differences, method=method) for method in ("exact", "asymptotic"))

    assert exactly.p_value == pytest.approx(roughly.p_value, rel=0.05)
    assert exactly.p_value < 0.05


def test_the_exact_law_is_refused_where_it_would_take_too_long():
    with pytest.raises(ValueError, match="at most 500 non-zero differences"):
        wilcoxon_signed_rank(range(1, 600), method="exact")
    mostly_zero = wilcoxon_signed_rank([0.0] * 900 + [1.0] * 10, method="exact")
    assert mostly_zero.p_value == 2 / 2**10


@pytest.mark.parametrize("function", [wilcoxon_signed_rank, sign_test, rank_biserial_paired, pseudo_median])
def test_missing_values_unequal_lengths_and_no_pairs_are_refused(function):
    with pytest.raises(ValueError, match="2 of 3 candidate values are NaN"):
        function([math.nan, 1.0, math.inf], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="1 of 2 differences are NaN"):
        function([math.nan, 1.0])
    with pytest.raises(ValueError, match="3 candidate values, 2 baseline"):
        function([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(NotEnoughData, match="no pairs"):
        function([], [])
    with pytest.raises(ValueError, match="level must lie"):
        function([1.0, 2.0], [1.0, 2.0], level=1.0)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="zero method must be"):
        wilcoxon_signed_rank([1, 2], zero_method="zsplit")
    for function in (wilcoxon_signed_rank, sign_test, pseudo_median):
        with pytest.raises(ValueError, match="alternative must be"):
            function([1, 2], alternative="both")


# -- signs ----------------------------------------------------------------------------------------------------------


@given(FEW, st.sampled_from(ALTERNATIVES))
def test_the_sign_test_is_the_binomial_one(differences, alternative):
    from scipy import stats

    result = sign_test(differences, alternative=alternative)
    signs = result.positive + result.negative

    assert signs + result.zeros == len(differences)
    if signs:
        theirs = stats.binomtest(result.positive, signs, alternative=alternative)
        assert result.p_value == pytest.approx(theirs.pvalue)
        both = stats.binomtest(result.positive, signs).proportion_ci(0.95)
        assert (result.interval.low, result.interval.high) == pytest.approx((both.low, both.high), abs=1e-9)
    else:
        assert (result.p_value, result.status, result.estimate, result.interval) == (1.0, "degenerate", None, None)


def test_signs_forgive_size_and_see_only_direction():
    assert sign_test([3, 4, 5, 4, 4, 2], [2, 3, 3, 1, 4, 1]).p_value == 2 / 2**5
    assert sign_test([100.0, -1.0, -1.0]).positive == 1


# -- effects --------------------------------------------------------------------------------------------------------


def test_rank_biserial_by_hand():
    effect = rank_biserial_paired([1.0, -2.0, 4.0, 3.0, 0.0, -1.0])  # ranks 1.5, 3, 5, 4, -, 1.5
    with_zeros = rank_biserial_paired([1.0, -2.0, 4.0, 3.0, 0.0, -1.0], zero_method="pratt")
    se = math.sqrt(sum(rank**2 for rank in range(1, 6))) / 15

    assert effect.value == (10.5 - 4.5) / 15
    assert effect.interval.high == pytest.approx(math.tanh(math.atanh(0.4) + 1.959963984540054 * se))
    assert with_zeros.value == (13.5 - 6.5) / 20


def test_differences_of_one_sign_have_a_rank_biserial_of_one_without_interval():
    effect = rank_biserial_paired([1.0, 2.0, 3.0])

    assert (effect.value, effect.interval) == (1.0, None)
    assert rank_biserial_paired([0.0, 0.0]).value is None


@given(FEW, st.sampled_from([0.8, 0.95]))
def test_paired_superiority_is_tango_in_other_words(differences, level):
    nothing = [0.0] * len(differences)
    result, swapped = (
        paired_superiority(*arms, level=level) for arms in ((differences, nothing), (nothing, differences))
    )
    greater, less, n = sum(d > 0 for d in differences), sum(d < 0 for d in differences), len(differences)
    tango = tango_interval(greater, less, n, level=level)

    assert result.estimate == pytest.approx((greater + (n - greater - less) / 2) / n)
    assert 2 * result.interval.low - 1 == pytest.approx(tango.low)
    assert 2 * result.interval.high - 1 == pytest.approx(tango.high)
    assert result.p_value == tango_p_value(greater, less, n) == swapped.p_value
    assert result.estimate + swapped.estimate == pytest.approx(1)
    assert (result.interval.low > 0.5 or result.interval.high < 0.5) == (result.p_value < 1 - level)


def test_equal_pairs_still_bound_how_often_one_arm_could_win():
    result = paired_superiority([3, 4, 5] * 10, [3, 4, 5] * 10)

    assert (result.status, result.p_value, result.estimate, result.statistic) == ("degenerate", 1.0, 0.5, None)
    assert 0.4 < result.interval.low < 0.5 < result.interval.high < 0.6
    with pytest.raises(NotEnoughData, match="no pairs"):
        paired_superiority([], [])
