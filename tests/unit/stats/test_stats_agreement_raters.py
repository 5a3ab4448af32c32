"""Agreement coefficients: values by hand and by other means, edges, and laws that hold for all ratings."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.agreement.coefficients import agreement_weights, count_ratings
from pytest_crucible.stats.agreement.fleiss import fleiss_kappa, fleiss_kappa_test
from pytest_crucible.stats.agreement.gwet import gwet_ac1, gwet_ac2
from pytest_crucible.stats.agreement.intraclass import intraclass_correlation
from pytest_crucible.stats.agreement.kappa import cohen_kappa
from pytest_crucible.stats.agreement.krippendorff import krippendorff_alpha
from pytest_crucible.stats.interval import NotEnoughData

SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
RATERS = st.integers(2, 4)
FORMS = ("1", "2", "3", "1k", "2k", "3k")
SCALES = ("nominal", "ordinal", "interval", "ratio")


@st.composite
def ratings(draw: st.DrawFn, *, missing: bool = False, raters: st.SearchStrategy[int] = RATERS):
    """Raters x units over at most four categories."""
    n = draw(st.integers(2, 12))
    value = st.integers(1, 4) | st.none() if missing else st.integers(1, 4)
    return [draw(st.lists(value, min_size=n, max_size=n)) for _ in range(draw(raters))]


def alpha(table, scale="nominal", **options):
    return krippendorff_alpha(table, scale=scale, resamples=100, **options)


COEFFICIENTS = {
    "cohen": lambda table: cohen_kappa(table[0], table[1]),
    "cohen quadratic": lambda table: cohen_kappa(table[0], table[1], weights="quadratic"),
    "fleiss": lambda table: fleiss_kappa(count_ratings(table)[0]),
    "ac1": gwet_ac1,
    "ac2": gwet_ac2,
    "alpha nominal": alpha,
    "alpha ordinal": lambda table: alpha(table, "ordinal"),
    "alpha interval": lambda table: alpha(table, "interval"),
    "alpha ratio": lambda table: alpha(table, "ratio"),
}
coefficients = pytest.mark.parametrize("coefficient", COEFFICIENTS.values(), ids=COEFFICIENTS.keys())


def noisy(rng, n, raters, shares, accuracy):
    truth = rng.choice(len(shares), n, p=shares)
    noise = rng.choice(len(shares), (raters, n), p=shares)
    return np.where(rng.random((raters, n)) < accuracy, truth, noise)


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


@coefficients
def test_one_unit_is_not_enough(coefficient):
    with pytest.raises(NotEnoughData, match=r"^1 unit"):
        coefficient([[1], [2]])


@coefficients
def test_no_units_are_not_enough(coefficient):
    with pytest.raises(NotEnoughData, match=r"^0 unit"):
        coefficient([[], []])


@coefficients
def test_raters_of_unequal_length_are_refused(coefficient):
    with pytest.raises(ValueError, match=r"raters have 2 and 3 ratings: give one rating \(or None\) per unit for each"):
        coefficient([[1, 2, 3], [1, 2]])


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
@given(table=ratings(), seed=st.integers(0, 99))
@settings(max_examples=choose_examples(25))
def test_the_order_of_the_units_does_not_matter(coefficient, table, seed):
    order = np.random.default_rng(seed).permutation(len(table[0]))
    result, shuffled = coefficient(table), coefficient([[rater[unit] for unit in order] for rater in table])

    assert shuffled.value == pytest.approx(result.value, abs=1e-12)
    assert shuffled.raw == pytest.approx(result.raw)
    if "alpha" not in result.coefficient:
        assert shuffled.se == pytest.approx(result.se, abs=1e-12)


@coefficients
@given(table=ratings(raters=st.just(2)))
@settings(max_examples=choose_examples(25))
def test_swapping_the_raters_changes_nothing(coefficient, table):
    result, swapped = coefficient(table), coefficient(table[::-1])

    assert swapped.value == pytest.approx(result.value, abs=1e-12)
    assert swapped.se == pytest.approx(result.se, abs=1e-12)


@pytest.mark.parametrize("name", ["cohen", "fleiss", "ac1", "alpha nominal"])
@given(table=ratings(), names=st.permutations(["x", "b", "q", "m"]))
@settings(max_examples=choose_examples(25))
def test_other_names_for_the_categories_change_no_nominal_coefficient(name, table, names):
    coefficient = COEFFICIENTS[name]
    renamed = coefficient([[names[value - 1] for value in rater] for rater in table])
    result = coefficient(table)

    assert renamed.value == pytest.approx(result.value, abs=1e-12)
    assert renamed.raw == pytest.approx(result.raw)
    assert renamed.se == pytest.approx(result.se, abs=1e-12)


@pytest.mark.parametrize("weights", ["linear", "quadratic"])
@given(table=ratings(raters=st.just(2)))
@settings(max_examples=choose_examples(25))
def test_reversing_ordered_levels_changes_nothing(weights, table):
    result = cohen_kappa(*table, weights=weights, levels=[1, 2, 3, 4])
    mirrored = cohen_kappa(*table, weights=weights, levels=[4, 3, 2, 1])

    assert mirrored.value == pytest.approx(result.value, abs=1e-12)
    assert mirrored.expected == pytest.approx(result.expected)


@given(table=ratings(raters=st.just(2)))
@settings(max_examples=choose_examples(25))
def test_two_categories_make_all_weights_alike(table):
    bits = [[value > 2 for value in rater] for rater in table]
    plain = cohen_kappa(*bits, levels=[False, True])

    for weights in ("linear", "quadratic"):
        weighted = cohen_kappa(*bits, levels=[False, True], weights=weights)
        assert weighted.value == pytest.approx(plain.value)
        assert weighted.se == pytest.approx(plain.se)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_cohen_and_its_standard_error_are_those_of_statsmodels(weights):
    from statsmodels.stats.inter_rater import cohens_kappa

    rng = np.random.default_rng(1)
    first, second = noisy(rng, 80, 2, [0.4, 0.3, 0.2, 0.1], 0.7)
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1)
    wanted = cohens_kappa(table, wt={"none": None, "linear": "linear", "quadratic": "quadratic"}[weights])

    got = cohen_kappa(first, second, weights=weights, levels=range(4), transform="none")

    assert got.value == pytest.approx(wanted.kappa, rel=1e-12)
    assert got.se == pytest.approx(wanted.std_kappa, rel=1e-12)
    assert got.interval.low == pytest.approx(wanted.kappa_low, rel=1e-12)
    assert got.raw == pytest.approx(np.mean(first == second))


def test_levels_that_nobody_used_change_only_the_weighed_agreement():
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


@pytest.mark.parametrize("word", ["weights", "transform"])
def test_unknown_options_are_refused(word):
    with pytest.raises(ValueError, match=word):
        cohen_kappa([1, 2], [1, 2], **{word: "cubic"})


def test_weights_by_hand():
    assert agreement_weights(3, "quadratic").tolist() == [[1, 0.75, 0], [0.75, 1, 0.75], [0, 0.75, 1]]
    assert agreement_weights(1, "linear").tolist() == [[1]]


def test_fisher_z_keeps_the_interval_inside_where_the_plain_one_is_cut_off():
    first, second = [0, 1] * 15, [0, 1] * 14 + [0, 0]
    plain, z = (cohen_kappa(first, second, transform=transform).interval for transform in ("none", "fisher"))

    assert plain.high == 1
    assert z.high < 1
    assert z.low < plain.low


def test_fleiss_is_that_of_statsmodels():
    from statsmodels.stats.inter_rater import fleiss_kappa as other

    counts = count_ratings(noisy(np.random.default_rng(2), 60, 4, [0.5, 0.3, 0.2], 0.5))[0]

    assert fleiss_kappa(counts).value == pytest.approx(other(counts), rel=1e-12)


@pytest.mark.parametrize(("name", "raters"), [("fleiss", 3), ("ac1", 2), ("ac1", 3), ("ac2", 3)])
def test_linearised_errors_are_near_those_of_the_jackknife(name, raters):
    table = noisy(np.random.default_rng(3), 150, raters, [0.6, 0.3, 0.1], 0.7)
    coefficient, n = COEFFICIENTS[name], 150
    leaving = np.array([coefficient(np.delete(table, unit, axis=1)).value for unit in range(n)])
    jackknife = math.sqrt((n - 1) / n * ((leaving - leaving.mean()) ** 2).sum())

    assert coefficient(table).se == pytest.approx(jackknife, rel=0.03)


def test_units_with_one_rating_shift_the_shares_of_gwet_only():
    with_one = gwet_ac1([[1, 1, 2, 2, 1], [1, 2, 2, 1, None]])

    assert with_one.units == 4
    assert with_one.raw == 0.5
    assert with_one.expected == pytest.approx(2 * 0.6 * 0.4)


def test_units_that_nobody_rated_are_not_there():
    assert gwet_ac1([[1, 2, None, 1], [1, 1, None, 1]]) == gwet_ac1([[1, 2, 1], [1, 1, 1]])


def test_a_level_that_nobody_used_lowers_what_gwet_expects():
    two, three = gwet_ac1([[1, 2, 1], [1, 1, 1]]), gwet_ac1([[1, 2, 1], [1, 1, 1]], levels=[1, 2, 3])

    assert two.expected == pytest.approx(2 * three.expected)


def test_fleiss_test_and_estimate_are_those_of_one_table():
    counts = [[3, 0], [2, 1], [0, 3], [3, 0]]
    test = fleiss_kappa_test(counts)

    assert test.estimate == fleiss_kappa(counts).value == pytest.approx(0.625)
    assert test.se == pytest.approx(math.sqrt(2 / (4 * 3 * 2)))  # two categories: sqrt(2 / (N n (n - 1)))
    assert test.statistic == pytest.approx(test.estimate / test.se)


def test_fleiss_test_of_one_category_says_nothing():
    test = fleiss_kappa_test([[3, 0], [3, 0]])

    assert (test.p_value, test.statistic, test.status) == (None, None, "degenerate")


@pytest.mark.parametrize(
    ("counts", "message"),
    [([[3, 0], [1, 1]], "not 2 to 3"), ([[1, 0], [0, 1]], "not 1 to 1"), ([[0.5, 2.5], [1, 2]], "2 of 4 entries")],
)
def test_tables_that_fleiss_cannot_take_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        fleiss_kappa(counts)


def pairwise_alpha(table, scale):
    """Krippendorff's definition, by going through all pairs of ratings."""
    units = [[value for value in unit if value is not None] for unit in zip(*table, strict=True)]
    units = [unit for unit in units if len(unit) >= 2]
    values = [value for unit in units for value in unit]
    counts = Counter(values)

    def distance(one, other):
        if scale == "nominal":
            return float(one != other)
        if scale == "ordinal":
            low, high = sorted((one, other))
            between = sum(count for value, count in counts.items() if low <= value <= high)
            return (between - (counts[low] + counts[high]) / 2) ** 2
        return float((one - other) ** 2) / ((one + other) ** 2 if scale == "ratio" else 1)

    observed = sum(distance(a, b) / (len(unit) - 1) for unit in units for a, b in permutations(unit, 2)) / len(values)
    expected = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) * (len(values) - 1))
    return 1 - observed / expected


@pytest.mark.parametrize("scale", SCALES)
@given(table=ratings(missing=True))
@settings(max_examples=choose_examples(40))
def test_alpha_is_its_definition(scale, table):
    paired = [unit for unit in zip(*table, strict=True) if sum(value is not None for value in unit) >= 2]
    assume(len(paired) >= 2)
    assume(len({value for unit in paired for value in unit} - {None}) > 1)

    assert alpha(table, scale).value == pytest.approx(pairwise_alpha(table, scale), abs=1e-12)


def test_alpha_of_numbers_does_not_depend_on_their_origin_or_unit():
    table = np.random.default_rng(4).normal(size=(3, 40)) + np.random.default_rng(5).normal(size=40)
    result = alpha(table, "interval")

    assert alpha(table * 1000 + 1e6, "interval").value == pytest.approx(result.value, abs=1e-9)
    assert alpha(np.exp(table), "ordinal").value == pytest.approx(alpha(table, "ordinal").value, abs=1e-12)


def test_the_same_seed_gives_the_same_interval():
    table = noisy(np.random.default_rng(6), 40, 3, [0.5, 0.5], 0.6)
    one, again, other = (krippendorff_alpha(table, rng=seed) for seed in (7, 7, 8))

    assert one == again
    assert "2000 resamples, seed 7" in one.interval.method
    assert one.interval.low != other.interval.low
    assert one.interval.low == pytest.approx(other.interval.low, abs=0.05)


def test_alpha_and_fleiss_approach_each_other_with_many_units():
    table = noisy(np.random.default_rng(7), 5000, 3, [0.5, 0.3, 0.2], 0.6)
    fleiss, krippendorff = fleiss_kappa(count_ratings(table)[0]), krippendorff_alpha(table, resamples=500)

    assert krippendorff.value == pytest.approx(fleiss.value, abs=1e-4)
    assert krippendorff.se == pytest.approx(fleiss.se, rel=0.1)


@pytest.mark.parametrize(
    ("table", "scale", "message"),
    [
        ([["a", "b"], ["b", "b"]], "interval", "2 of 2 categories are not numbers"),
        ([[-1, 2], [2, 2]], "ratio", "1 of 2 distinct ratings are negative"),
        ([[1, 2], [2, 2]], "cardinal", "scale must be one of nominal, ordinal, interval, ratio, not .cardinal."),
        ([[1, math.inf], [2, 2]], "interval", "1 of 3 ratings are NaN or infinite"),
    ],
)
def test_ratings_that_a_scale_cannot_take_are_refused(table, scale, message):
    with pytest.raises(ValueError, match=message):
        alpha(table, scale)


def test_units_with_one_rating_are_not_enough_for_alpha():
    with pytest.raises(NotEnoughData, match="1 unit"):
        alpha([[1, 2, None], [1, None, 3]])


def test_a_table_of_many_distinct_ratings_is_refused_by_name():
    table = np.random.default_rng(8).random((2, 4000))

    with pytest.raises(ValueError, match="8000 distinct ratings of 4000 units"):
        alpha(table, "ordinal")
    assert abs(alpha(table, "interval").value) < 0.1


def test_ordinal_levels_may_be_words():
    words = {"poor": 1, "fair": 2, "good": 3}
    table = [["poor", "fair", "good", "good"], ["fair", "fair", "good", "poor"]]
    numbers = [[words[word] for word in rater] for rater in table]

    assert alpha(table, "ordinal", levels=list(words)).value == pytest.approx(alpha(numbers, "ordinal").value)


@pytest.mark.parametrize(
    ("form", "value"), [("1", 0.17), ("2", 0.29), ("3", 0.71), ("1k", 0.44), ("2k", 0.62), ("3k", 0.91)]
)
def test_intraclass_correlations_of_shrout_and_fleiss(form, value):
    result = intraclass_correlation(SHROUT_FLEISS, form=form)

    assert round(result.value, 2) == value
    assert result.interval.low <= result.value <= result.interval.high
    assert result.dof == ((5, 18) if form[0] == "1" else (5, 15))


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 10_000), shift=st.floats(-100, 100), unit=st.floats(0.1, 10))
@settings(max_examples=choose_examples(25))
def test_intraclass_correlations_do_not_depend_on_origin_or_unit(form, seed, shift, unit):
    matrix = np.random.default_rng(seed).normal(size=(6, 3)).round(2)
    result, moved = (intraclass_correlation(table, form=form) for table in (matrix, matrix * unit + shift))

    assert moved.error == pytest.approx(unit * result.error, rel=1e-6)
    if result.value is None:  # raters who disagree so much that the mean of all of them has no correlation
        assert moved.value is None
        return
    assert moved.value == pytest.approx(result.value, rel=1e-6, abs=1e-8)
    assert result.interval.low <= result.value <= result.interval.high <= 1
    assert 0 <= result.p_value <= 1


@pytest.mark.parametrize(
    ("form", "low", "high"),
    [
        ("1", -0.13, 0.72),
        ("2", 0.02, 0.76),
        ("3", 0.34, 0.95),
        ("1k", -0.88, 0.91),
        ("2k", 0.07, 0.93),
        ("3k", 0.68, 0.99),
    ],
)
def test_f_intervals_of_shrout_and_fleiss_are_those_of_psych(form, low, high):
    interval = intraclass_correlation(SHROUT_FLEISS, form=form, interval="f").interval

    assert (round(interval.low, 2), round(interval.high, 2)) == (low, high)


def test_generalised_intervals_name_their_seed_and_are_near_the_others():
    generalised, f = (intraclass_correlation(SHROUT_FLEISS, interval=ends).interval for ends in ("generalised", "f"))

    assert generalised == intraclass_correlation(SHROUT_FLEISS, rng=0).interval
    assert generalised != intraclass_correlation(SHROUT_FLEISS, rng=1).interval
    assert generalised.method == "generalised, 10000 draws, seed 0"
    assert (generalised.low, generalised.high) == pytest.approx((f.low, f.high), abs=0.03)


@pytest.mark.parametrize("form", ["3", "3k"])
def test_raters_with_their_own_means_are_consistent(form):
    matrix = np.random.default_rng(9).normal(size=(8, 3))
    result = intraclass_correlation(matrix, form=form)

    assert intraclass_correlation(np.add(matrix, [0, 5, -3]), form=form).value == pytest.approx(result.value)


@pytest.mark.parametrize("form", FORMS)
def test_equal_ratings_inside_all_units_have_no_f_statistic(form):
    result = intraclass_correlation([[1, 1], [2, 2], [5, 5]], form=form)

    assert result.value == pytest.approx(1)
    assert (result.interval, result.statistic, result.error, result.status) == (None, None, 0, "degenerate")


@pytest.mark.parametrize("form", FORMS)
def test_equal_ratings_everywhere_have_no_correlation(form):
    result = intraclass_correlation([[0.3, 0.3], [0.3, 0.3], [0.3, 0.1 + 0.2]], form=form)

    assert (result.value, result.interval, result.status) == (None, None, "degenerate")


def test_intraclass_input_is_checked():
    with pytest.raises(ValueError, match="1 of 4 matrix entries"):
        intraclass_correlation([[1, math.nan], [2, 3]])
    with pytest.raises(ValueError, match="at least 2 raters"):
        intraclass_correlation([[1], [2]])
    with pytest.raises(NotEnoughData, match="1 unit"):
        intraclass_correlation([[1, 2]])
    with pytest.raises(ValueError, match="'generalised', 'f'"):
        intraclass_correlation([[1, 2], [2, 1]], interval="exact")
    with pytest.raises(ValueError, match="'1', '2', '3'"):
        intraclass_correlation([[1, 2], [2, 1]], form="4")
