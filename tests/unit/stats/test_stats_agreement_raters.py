"""Agreement coefficients: values by hand and by other means, edges, and laws that hold for all ratings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.agreement.kappa import cohen_kappa
from pytest_crucible.stats.interval import NotEnoughData


@st.composite
def ratings(draw: st.DrawFn):
    """Two raters x units over at most four categories."""
    n = draw(st.integers(2, 12))
    return [draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)) for _ in range(2)]


COEFFICIENTS = {
    "cohen": lambda table: cohen_kappa(table[0], table[1]),
    "cohen quadratic": lambda table: cohen_kappa(table[0], table[1], weights="quadratic"),
}
coefficients = pytest.mark.parametrize("coefficient", COEFFICIENTS.values(), ids=COEFFICIENTS.keys())


@coefficients
def test_perfect_agreement_is_one_and_its_interval_still_has_a_width(coefficient):
    result = coefficient([[1, 2, 3, 1, 2, 3, 1, 2]] * 3)

    assert result.value == 1
    assert result.raw == 1
    assert -1 <= result.interval.low < 1 == result.interval.high
    assert result.status == "degenerate"
    assert result.se is None


@coefficients
def test_one_category_has_raw_agreement_only(coefficient):
    result = coefficient([[2, 2, 2], [2, 2, 2]])

    assert (result.value, result.interval, result.se, result.raw) == (None, None, None, 1.0)
    assert result.status == "degenerate"
    assert result.note


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ([[1], [2]], NotEnoughData, r"^1 unit"),
        ([[], []], NotEnoughData, r"^0 unit"),
        (
            [[1, 2, 3], [1, 2]],
            ValueError,
            r"raters have 2 and 3 ratings: give one rating \(or None\) per unit for each",
        ),
    ],
)
def test_too_few_units_and_raters_of_unequal_length_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        cohen_kappa(*table)


@coefficients
@given(table=ratings())
@settings(max_examples=choose_examples(25))
def test_intervals_are_ordered_and_contain_the_coefficient(coefficient, table):
    result = coefficient(table)
    if result.value is None:
        assert result.interval is None
        return

    assert -1e-9 <= result.raw <= 1
    assert result.value == pytest.approx((result.observed - result.expected) / (1 - result.expected), abs=1e-9)
    if result.interval is not None:
        assert -1 <= result.interval.low < result.interval.high <= 1
        assert result.interval.low <= result.value <= result.interval.high


@coefficients
@given(table=ratings())
@settings(max_examples=choose_examples(25))
def test_swapping_the_raters_changes_nothing(coefficient, table):
    result, swapped = coefficient(table), coefficient(table[::-1])

    assert swapped.value == pytest.approx(result.value, abs=1e-12)
    assert swapped.se == pytest.approx(result.se, abs=1e-12)


@given(table=ratings(), names=st.permutations(["x", "b", "q", "m"]))
@settings(max_examples=choose_examples(25))
def test_other_names_for_the_categories_change_no_nominal_coefficient(table, names):
    coefficient = COEFFICIENTS["cohen"]
    renamed = coefficient([[names[value - 1] for value in rater] for rater in table])
    result = coefficient(table)

    assert renamed.value == pytest.approx(result.value, abs=1e-12)
    assert renamed.raw == pytest.approx(result.raw)
    assert renamed.se == pytest.approx(result.se, abs=1e-12)


@pytest.mark.parametrize("weights", ["linear", "quadratic"])
@given(table=ratings())
@settings(max_examples=choose_examples(25))
def test_reversing_ordered_levels_changes_nothing(weights, table):
    result = cohen_kappa(*table, weights=weights, levels=[1, 2, 3, 4])
    mirrored = cohen_kappa(*table, weights=weights, levels=[4, 3, 2, 1])

    assert mirrored.value == pytest.approx(result.value, abs=1e-12)
    assert mirrored.expected == pytest.approx(result.expected)


@given(table=ratings())
@settings(max_examples=choose_examples(25))
def test_two_categories_make_all_weights_alike(table):
    bits = [[value > 2 for value in rater] for rater in table]
    plain = cohen_kappa(*bits, levels=[False, True])

    for weights in ("linear", "quadratic"):
        weighted = cohen_kappa(*bits, levels=[False, True], weights=weights)
        assert weighted.value == pytest.approx(plain.value)
        assert weighted.se == pytest.approx(plain.se)


def test_unused_levels_change_only_the_weighted_agreement():
    few = cohen_kappa([1, 2, 3, 1], [1, 3, 3, 2], weights="linear")
    more = cohen_kappa([1, 2, 3, 1], [1, 3, 3, 2], weights="linear", levels=[1, 2, 3, 4, 5])

    assert few.value == pytest.approx(more.value)
    assert (few.observed, more.observed) == (0.75, 0.875)


def test_a_rater_with_one_category_has_kappa_nought_and_no_interval():
    result = cohen_kappa([1, 1, 1, 1], [1, 2, 1, 2])

    assert (result.value, result.interval, result.status) == (0, None, "degenerate")


def test_missing_ratings_are_counted():
    with pytest.raises(ValueError, match="2 of 6 ratings are missing"):
        cohen_kappa([1, None, 2], [1, 2, math.nan])


def test_ratings_outside_the_levels_are_counted():
    with pytest.raises(ValueError, match="3 of 6 ratings are not among the 2 levels"):
        cohen_kappa([1, 2, 3], [3, 3, 1], levels=[1, 2])


def test_categories_without_an_order_need_levels():
    with pytest.raises(ValueError, match="2 categories have no common order"):
        cohen_kappa([1, "a"], ["a", 1])
    assert cohen_kappa([1, "a"], ["a", 1], levels=[1, "a"]).value == -1


def test_fisher_z_keeps_the_interval_inside_where_the_plain_one_is_cut_off():
    first, second = [0, 1] * 15, [0, 1] * 14 + [0, 0]
    plain, z = (cohen_kappa(first, second, transform=transform).interval for transform in ("none", "fisher"))

    assert plain.high == 1
    assert z.high < 1
    assert z.low < plain.low


def test_equal_sample_weights_change_nothing_and_whole_ones_are_repeated_units():
    table = [[1, 1, 2, 2, 1, 3, 3, 2], [1, 2, 2, 2, 1, 3, 1, 2]]
    plain, equal = cohen_kappa(*table), cohen_kappa(*table, sample_weights=[2.5] * 8)
    repeated = cohen_kappa(*([*rater, *rater[:3]] for rater in table))
    weighted = cohen_kappa(*table, sample_weights=[2, 2, 2, 1, 1, 1, 1, 1])

    assert (equal.value, equal.se, equal.units) == (pytest.approx(plain.value), pytest.approx(plain.se), 8)
    assert (weighted.value, weighted.raw) == (pytest.approx(repeated.value), pytest.approx(repeated.raw))


def test_sample_weights_are_positive_and_one_for_each_unit():
    for weights in ([1, 2], [1, 0, 1], [1, math.nan, 1]):
        with pytest.raises(ValueError, match="3 units need as many positive sample weights"):
            cohen_kappa([1, 2, 1], [1, 2, 2], sample_weights=weights)


def test_the_error_of_a_weighted_kappa_is_that_of_the_jackknife():
    generator = np.random.default_rng(7)
    table = [generator.integers(0, 2, 4_000), generator.integers(0, 2, 4_000)]
    table[1] = np.where(generator.random(4_000) < 0.6, table[0], table[1])
    weights = np.where(generator.random(4_000) < 0.5, 1.0, 6.0)
    groups = np.arange(4_000) % 200
    values = [
        cohen_kappa(*(rater[groups != k] for rater in table), sample_weights=weights[groups != k]).value
        for k in range(200)
    ]

    error = math.sqrt(199 / 200 * np.square(np.array(values) - np.mean(values)).sum())

    assert cohen_kappa(*table, sample_weights=weights).se == pytest.approx(error, rel=0.15)
