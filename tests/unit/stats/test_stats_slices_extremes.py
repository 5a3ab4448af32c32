"""Gaps, ratios and worst means: reference numbers on Adult and German credit, and the same bounds by other functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from pytest_crucible import stats
from pytest_crucible.stats.proportions.exact import two_exact_bound
from pytest_crucible.stats.proportions.score import risk_ratio_score, score_interval
from pytest_crucible.stats.slices.changes import arm_means, change_of_extreme
from pytest_crucible.stats.slices.extremes import bound_extreme
from pytest_crucible.stats.slices.pair_scores import difference_bounds, exact_lower_ratio, melded_upper, ratio_bounds
from pytest_crucible.stats.slices.pairs import met_bounds
from pytest_crucible.stats.slices.slicing import Slicing, slice_means

# UCI Adult, training part: samples, selected, positive, selected positive; v1: education-num >= 13.
WOMEN_V1, MEN_V1 = (10771, 2333, 1179, 610), (21790, 5734, 6662, 3299)
WOMEN_V2, MEN_V2 = (10771, 1922, 1179, 608), (21790, 5634, 6662, 3633)
# By sex and race, v1: samples and selected.
CROSSED = [(119, 13), (346, 123), (1555, 212), (109, 18), (8642, 1967)]
CROSSED += [(192, 18), (693, 323), (1569, 230), (162, 28), (19174, 5135)]
# Race, v1: positive, selected positive, negative, selected negative.
RACES = [(36, 15, 275, 16), (276, 185, 763, 261), (387, 153, 2737, 289), (25, 12, 246, 34), (7117, 3544, 20699, 3558)]
# German credit, attribute 9: samples and selected (A14, or duration <= 12).
GERMAN = [(50, 25), (310, 186), (548, 337), (92, 59)]


def rates(*counts, **options):
    """Slices of yes and no: (samples, right) each."""
    values = np.concatenate([np.repeat([1.0, 0.0], [right, n - right]) for n, right in counts])
    return slice_means(values, slicing([n for n, _ in counts]), **{"is_binary": True, "bounds": (0, 1), **options})


def slicing(sizes):
    return Slicing(codes=np.repeat(np.arange(len(sizes)), sizes), names=tuple(f"s{k}" for k in range(len(sizes))))


def extreme(kind, *means, **options):
    return bound_extreme(kind, means, means, alpha=0.05, **options)


@pytest.mark.parametrize(
    ("kind", "slices", "value", "low", "high"),
    [
        ("ratio", [WOMEN_V1[:2], MEN_V1[:2]], 0.823111, 0.794, 0.859),
        ("ratio", [WOMEN_V2[:2], MEN_V2[:2]], 0.690141, 0.664, 0.723),
        ("gap", CROSSED, 0.372339, 0.273, 0.417),
        ("ratio", GERMAN, 0.779661, 0.585, 1.117),
        ("gap", [WOMEN_V1[:2], MEN_V1[:2]], 0.046548, 0.0368, 0.0547),
        ("gap", [WOMEN_V2[:2], MEN_V2[:2]], 0.080117, 0.0708, 0.0879),
        ("gap", [WOMEN_V1[2:], MEN_V1[2:]], 0.022191, -0.0088, 0.0481),
        ("gap", [(2333, 610), (5734, 3299)], 0.313874, 0.2917, 0.3321),
        ("gap", [(1922, 608), (5634, 3633)], 0.328498, 0.3040, 0.3487),
    ],
)
def test_adult_and_german_have_the_reference_values(kind, slices, value, low, high):
    """Values: fairlearn 0.15 and AIF360 0.6.1."""
    result = extreme(kind, rates(*slices))

    assert result.value == pytest.approx(value, abs=1e-6)
    assert (result.lower, result.upper) == (pytest.approx(low, abs=0.003), pytest.approx(high, abs=0.003))
    assert result.method.startswith("score")


def test_several_metrics_have_the_largest_of_their_gaps_and_share_alpha():
    positive = rates(*[(n, x) for n, x, _, _ in RACES])
    negative = rates(*[(n, x) for _, _, n, x in RACES])

    both = extreme("gap", positive, negative)

    assert both.value == pytest.approx(0.283889, abs=1e-6)
    assert both.pair.column == 1
    assert both.lower < extreme("gap", negative).lower
    assert both.upper == pytest.approx(max(extreme("gap", single).upper for single in (positive, negative)))


def test_two_slices_have_the_bounds_of_one_pair():
    result, larger = extreme("gap", rates((70, 56), (80, 48))), extreme("gap", rates((700, 560), (800, 480)))

    assert result.lower == pytest.approx(score_interval(56, 70, 48, 80, level=0.95).low, abs=1e-9)
    assert result.upper == pytest.approx(two_exact_bound(56, 70, 48, 80, alpha=0.05, side="upper"))
    assert larger.upper == pytest.approx(score_interval(560, 700, 480, 800, level=0.90).high, abs=1e-9)


def counts_of(*pairs):
    return tuple(np.array(column, dtype=float) for column in zip(*pairs, strict=True))


def test_the_melded_bound_is_used_where_it_is_narrower():
    result = met_bounds("gap", counts_of((8, 10, 160, 200)), 0.05)[0]

    assert result == pytest.approx(melded_upper(*counts_of((8, 10, 160, 200)), 0.05)[0])
    assert result < two_exact_bound(8, 10, 160, 200, alpha=0.05, side="upper") - 0.02


@pytest.mark.parametrize(("kind", "furthest"), [("gap", np.max), ("ratio", np.min)])
def test_of_many_small_slices_the_furthest_pair_has_its_narrowest_bound(kind, furthest):
    rng = np.random.default_rng(5)
    sizes = rng.integers(10, 260, 6)
    slices = list(zip(rng.binomial(sizes, 0.8).tolist(), sizes.tolist(), strict=True))
    pairs = [first + second for first, second in itertools.permutations(slices, 2)]

    alone = [met_bounds(kind, counts_of(pair), 0.05)[0] for pair in pairs]

    assert furthest(met_bounds(kind, counts_of(*pairs), 0.05)) == pytest.approx(furthest(alone), abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [(4, 6), (6, 3), (9, 9)])
def test_an_exact_ratio_errs_in_at_most_alpha_at_every_pair_of_rates(first, second):
    bounds = [[exact_lower_ratio(x, first, y, second, 0.05) for y in range(second + 1)] for x in range(first + 1)]

    for high, ratio in itertools.product(np.linspace(0.05, 1, 20), (0.4, 0.75, 1.0, 1.5)):
        if high * ratio <= 1:
            chances = [binom.pmf(range(n + 1), n, rate) for n, rate in ((first, high * ratio), (second, high))]
            assert chances[0] @ (np.array(bounds) > ratio) @ chances[1] <= 0.05


def test_exact_ratios_have_closed_forms_where_one_slice_is_certain():
    """All right in both: Clopper and Pearson's limit of the first slice. The lowest ratio of 1 of 1 is alpha."""
    assert exact_lower_ratio(10, 10, 10, 10, 0.05) == pytest.approx(0.05 ** (1 / 10), abs=1e-4)
    assert exact_lower_ratio(1, 1, 1, 1, 0.05) == pytest.approx(0.05, abs=1e-5)
    assert exact_lower_ratio(0, 10, 3, 10, 0.05) == 0


@pytest.mark.parametrize("arms", [(5, 56, 0, 29), (56, 70, 48, 80), (0, 12, 0, 9), (12, 12, 9, 9), (1, 200, 9, 10)])
def test_bounds_of_many_pairs_are_those_of_each(arms):
    columns = [np.array([float(count)]) for count in arms]
    interval, ratio = score_interval(*arms, level=0.95), risk_ratio_score(*arms, level=0.95).interval
    z = 1.959963984540054

    assert difference_bounds(*columns, z, upper=False)[0] == pytest.approx(interval.low, abs=1e-7)
    assert difference_bounds(*columns, z, upper=True)[0] == pytest.approx(interval.high, abs=1e-7)
    assert ratio_bounds(*columns, z, upper=False)[0] == pytest.approx(ratio.low, abs=1e-6)
    assert min(ratio_bounds(*columns, z, upper=True)[0], 1e6) == pytest.approx(min(ratio.high, 1e6), rel=1e-5)


def test_scores_without_bounds_have_no_bounds():
    """One value that was too rare to be seen could move a mean anywhere."""
    groups = [np.array([1.0, 2, 3, 5]), np.array([2.0, 4, 6, 9, 9]), np.array([5.0, 9, 13])]
    sizes = [len(group) for group in groups]
    means = slice_means(np.concatenate(groups), slicing(sizes), is_binary=False, bounds=(-np.inf, np.inf))

    result = extreme("gap", means)

    assert result.value == pytest.approx(9 - 2.75)
    assert (result.lower, result.upper, result.method) == (None, None, "none")


def test_scores_between_bounds_are_no_narrower_and_a_constant_slice_proves_nothing():
    means = slice_means(
        np.r_[np.ones(10), np.ones(190), np.zeros(10)], slicing([10, 200]), is_binary=False, bounds=(0, 1)
    )

    result = extreme("gap", means)

    assert result.value == pytest.approx(0.05)
    assert result.lower < 0 < 0.1 < result.upper


def test_ten_right_answers_do_not_prove_a_small_gap():
    """At a true rate of .8 ten of ten are right in 11 % of runs: Clopper and Pearson's bound is .741."""
    result = extreme("gap", rates((10, 10), (1000, 1000)))

    assert result.upper == pytest.approx(1 - 0.05 ** (1 / 10), abs=0.003)


def test_a_slice_without_a_rate_cannot_be_proven_fair_but_others_can_be_proven_unfair():
    values = np.r_[np.repeat([1.0, 0.0], [90, 10]), np.repeat([1.0, 0.0], [10, 90]), np.full(5, np.nan)]
    means = slice_means(values, slicing([100, 100, 5]), is_binary=True, bounds=(0, 1))

    result = extreme("gap", means)

    assert means.has_rate.tolist() == [True, True, False]
    assert (result.value, result.upper) == (0.8, None)
    assert result.lower == pytest.approx(extreme("gap", rates((100, 90), (100, 10))).lower)
    assert extreme("ratio", means).lower is None


def test_a_ratio_of_rates_that_are_all_0_has_no_value():
    assert extreme("ratio", rates((10, 0), (20, 0))).value is None
    assert extreme("ratio", rates((10, 0), (20, 4))).value == 0


def test_a_pair_without_a_bound_is_not_taken_for_one_with_an_infinite_bound():
    """One slice has no right answer, so that one of both ratios has no bound, and the other one an infinite upper one."""
    strata = np.array([0, 1, 0, 1, 1])
    standardised = Slicing(codes=np.array([0, 0, 1, 1, 1]), names=("m", "f"), strata=strata)
    means = slice_means(np.array([0.0, 0, 1, 1, 1]), standardised, is_binary=True, bounds=(0, 1))

    result = bound_extreme("ratio", [means], [means], alpha=0.05)

    assert (result.value, result.lower) == (0.0, 0.0)
    assert 1 < result.upper < np.inf


def test_twins_that_are_yes_or_no_have_tangos_bounds():
    first = np.r_[np.ones(12), np.zeros(2), np.ones(36)]
    second = np.r_[np.zeros(12), np.ones(2), np.ones(36)]
    twins = Slicing(codes=np.repeat([0, 1], 50), names=("f", "m"))
    clusters = np.tile(np.arange(50), 2)

    result = extreme("gap", slice_means(np.r_[first, second], twins, clusters=clusters, is_binary=True, bounds=(0, 1)))

    assert result.lower == pytest.approx(stats.tango_interval(12, 2, 50, level=0.95).low)
    assert result.upper == pytest.approx(stats.tango_interval(12, 2, 50, level=0.90).high)
    assert result.method.startswith("tango")


def test_slices_that_are_no_twins_of_each_other_are_compared_too():
    """Twins and topics are crossed: the women of one topic share no cluster with the men of another."""
    n, rng = 40, np.random.default_rng(0)
    names, clusters = (
        ("f law", "m law", "f tax", "m tax"),
        np.r_[np.tile(np.arange(n), 2), n + np.tile(np.arange(n), 2)],
    )
    values = (rng.random(4 * n) < np.repeat([0.9, 0.9, 0.6, 0.6], n)).astype(float)
    slices = Slicing(codes=np.repeat(np.arange(4), n), names=names)
    means = slice_means(values, slices, clusters=clusters, is_binary=True, bounds=(0, 1))

    result = extreme("gap", means)

    assert result.value == pytest.approx(np.ptp(means.means))
    assert 0 < result.lower < result.value < result.upper < 1


@pytest.mark.parametrize("slices", [2, 3, 6])
def test_a_slice_of_one_cluster_cannot_be_proven_fair(slices):
    codes = np.repeat(np.arange(slices), 10)
    clusters = np.where(codes == 0, 0, 1 + np.arange(10 * slices) // 2)
    parts = Slicing(codes=codes, names=tuple("abcdef"[:slices]))
    values = np.random.default_rng(0).random(10 * slices)

    result = extreme("gap", slice_means(values, parts, clusters=clusters, is_binary=False, bounds=(0, 1)))

    assert result.upper is None or result.upper > 0.5


def test_standardised_slices_compare_like_with_like():
    """Within each department both are accepted alike; women apply where few are (Simpson's paradox)."""
    cells = [(0, 0, 80, 20), (0, 1, 20, 16), (1, 0, 20, 5), (1, 1, 80, 64)]
    codes = np.concatenate([np.full(n, who) for who, _, n, _ in cells])
    strata = np.concatenate([np.full(n, where) for _, where, n, _ in cells])
    values = np.concatenate([np.repeat([1.0, 0.0], [right, n - right]) for _, _, n, right in cells])
    plain, within = Slicing(codes=codes, names=("w", "m")), Slicing(codes=codes, names=("w", "m"), strata=strata)

    crude, fair = (extreme("gap", slice_means(values, each, is_binary=True, bounds=(0, 1))) for each in (plain, within))

    assert crude.value == pytest.approx(0.33)
    assert fair.value == pytest.approx(0.0, abs=1e-12)
    assert fair.lower < 0 < fair.upper < 0.2


def test_a_slice_that_lacks_a_stratum_has_no_standardised_rate():
    single = Slicing(codes=np.array([0, 0, 1, 1]), names=("a", "b"), strata=np.array([0, 1, 0, 0]))

    assert slice_means(np.ones(4), single, is_binary=True, bounds=(0, 1)).has_rate.tolist() == [True, False]


def test_more_samples_would_decide():
    undecided = extreme("ratio", rates(WOMEN_V1[:2], MEN_V1[:2]), limit=0.80)
    enough = round(undecided.needed * 1.1)

    larger = extreme("ratio", rates(*[(n * enough, x * enough) for n, x in (WOMEN_V1[:2], MEN_V1[:2])]), limit=0.80)

    assert undecided.lower < 0.80 < undecided.upper
    assert larger.lower > 0.80


# -- change of a gap, a ratio and a worst mean --------------------------------------------------------------------


# UCI Adult by sex: both selected, only by v1, only by v2, neither.
WOMEN, MEN = (1778, 555, 144, 8294), (5041, 693, 593, 15463)


def paired_slices(*slices):
    """Both arms' values, candidate first, from the four counts of each slice (both, old only, new only, neither)."""
    codes = np.repeat(np.arange(len(slices)), [sum(counts) for counts in slices])
    old = np.concatenate([np.repeat([1.0, 1, 0, 0], counts) for counts in slices])
    new = np.concatenate([np.repeat([1.0, 0, 1, 0], counts) for counts in slices])
    slicing = Slicing(codes=codes, names=tuple("abcdef"[: len(slices)]))
    return [arm_means([arm], [arm], slicing, None, (0.0, 1.0)) for arm in (new, old)]


def test_adult_became_less_fair():
    change = change_of_extreme("gap", *paired_slices(WOMEN, MEN), alpha=0.05)

    assert change.value == pytest.approx(0.033569, abs=1e-6)
    assert (change.low, change.high) == (pytest.approx(0.028, abs=0.003), pytest.approx(0.039, abs=0.003))
    assert change.p_value < 1e-20


def test_a_gap_that_reverses_at_equal_size_has_not_changed():
    reversed_gap = (500, 300, 0, 200), (500, 0, 300, 200)

    change = change_of_extreme("gap", *paired_slices(*reversed_gap), alpha=0.05)

    assert change.value == 0
    assert change.low < 0 < change.high
    assert change.p_value > 0.9


def test_one_slice_that_falls_is_found():
    change = change_of_extreme("gap", *paired_slices((700, 100, 0, 200), (760, 40, 40, 160)), alpha=0.05)

    assert change.value == pytest.approx(0.1)
    assert change.low > 0


@pytest.mark.parametrize("kind", ["gap", "ratio", "worst"])
@pytest.mark.parametrize("seed", range(6))
def test_the_interval_excludes_0_exactly_where_the_p_value_of_the_bounds_is_small(kind, seed):
    rng = np.random.default_rng(seed)
    arms = paired_slices(*[tuple(rng.integers(5, 60, 4)) for _ in range(3)])

    change = change_of_extreme(kind, *arms, alpha=0.05)

    assert (change.proof_p <= 0.05) == (change.low > 0 or change.high < 0)
    assert change.low <= change.lower <= change.upper <= change.high
    swapped = change_of_extreme(kind, *reversed(arms), alpha=0.05)
    assert (swapped.value, swapped.low) == (pytest.approx(-change.value), pytest.approx(-change.high))


def test_the_worst_mean_may_be_the_largest():
    arms = paired_slices((40, 10, 0, 50), (20, 0, 0, 80))

    assert change_of_extreme("worst", *arms, alpha=0.05).value == pytest.approx(0.0)
    assert change_of_extreme("worst", *arms, alpha=0.05, takes_smallest=False).value == pytest.approx(-0.1)


def test_without_a_rate_in_a_slice_there_is_no_change():
    slicing = Slicing(codes=np.array([0, 0, 1, 1]), names=("a", "b"))
    values = np.array([1.0, 0.0, np.nan, np.nan])
    arms = [arm_means([values], [values], slicing, None, (0.0, 1.0)) for _ in range(2)]

    assert change_of_extreme("gap", *arms, alpha=0.05).value is None
