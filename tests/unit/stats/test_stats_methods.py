"""Single methods at their edges, and against arithmetic done another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats import (
    clustered_mean,
    count_discordant,
    detectable_mean,
    detectable_paired_proportions,
    mean_bound,
    quantile_bound,
    samples_for_margin,
    samples_for_paired_proportions,
    samples_for_zero,
    samples_to_prove_proportion,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.planning.paired_proportions import power_paired_proportions
from pytest_crucible.stats.proportions.one import (
    clopper_pearson_interval,
    wilson_interval,
)
from pytest_crucible.stats.proportions.paired import (
    discordant_odds,
    mcnemar_exact,
    tango_interval,
    tango_p_value,
    tango_statistic,
)
from pytest_crucible.stats.ranks.quantiles import (
    clustered_quantile_bound,
    clustered_shares,
    quantile_estimate,
    quantile_interval,
)
from pytest_crucible.stats.ranks.superiority import cles, cles_interval, cliffs_delta, paired_superiority
from pytest_crucible.stats.studentized_range import (
    average_over_scale,
    studentized_range_critical,
    studentized_range_tail,
)

RNG = np.random.default_rng(7)


# -- proportions --------------------------------------------------------------------------------------------------


def test_tango_at_the_corners():
    assert (tango_interval(0, 0, 0).low, tango_interval(0, 0, 0).high) == (-1.0, 1.0)
    assert tango_interval(8, 0, 8).high == 1.0
    assert tango_interval(0, 8, 8).low == -1.0
    assert tango_statistic(8, 0, 8, 1.0) == 0.0
    assert tango_statistic(7, 0, 8, 1.0) == -math.inf
    assert tango_p_value(7, 0, 8, difference=1.0) == 0.0
    with pytest.raises(ValueError, match="between -1 and 1"):
        tango_statistic(1, 1, 8, 1.5)
    with pytest.raises(ValueError, match="gained=5, lost=4"):
        tango_interval(5, 4, 8)


def test_discordance_is_counted_only_for_zeros_and_ones():
    with pytest.raises(ValueError, match="1 of 6 values are neither 0 nor 1"):
        count_discordant([1, 0.5, 0], [1, 1, 0])


# -- means --------------------------------------------------------------------------------------------------------


# -- clusters -----------------------------------------------------------------------------------------------------


@given(st.data())
def test_the_closed_form_is_the_matrix_formula(data):
    """CR2 and Satterthwaite from their definition: A_g = (I - H_gg)^(-1/2), and the matrix of the quadratic form."""
    sizes = np.array(data.draw(st.lists(st.integers(1, 7), min_size=5, max_size=9)))
    codes = np.repeat(np.arange(sizes.size), sizes)
    values, n = np.random.default_rng(int(sizes.sum())).normal(size=codes.size), codes.size
    hat = np.full((n, n), 1 / n)
    contrasts = []
    for cluster in range(sizes.size):
        inside = codes == cluster
        eigenvalues, vectors = np.linalg.eigh(np.eye(inside.sum()) - hat[np.ix_(inside, inside)])
        adjusted = vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
        contrasts.append(adjusted.sum(axis=0) @ (np.eye(n) - hat)[inside] / n)
    matrix = np.array(contrasts)
    gram = matrix @ matrix.T

    mean = clustered_mean(values, codes)

    assert mean.se == pytest.approx(math.sqrt(((matrix @ values) ** 2).sum()), rel=1e-9)
    assert mean.dof == pytest.approx(np.trace(gram) ** 2 / (gram * gram).sum(), rel=1e-9)


# -- quantiles ----------------------------------------------------------------------------------------------------


def test_a_quantile_outside_the_sample_is_unknown():
    values = RNG.exponential(size=10)

    assert quantile_interval(values, 0.95).high == math.inf
    assert quantile_interval(values, 0.05).low == -math.inf
    assert quantile_bound(values, 0.5, alpha=0.05, side="lower") == np.sort(values)[1]
    with pytest.raises(NotEnoughData, match="no values"):
        quantile_interval([], 0.5)


# -- power --------------------------------------------------------------------------------------------------------


@given(st.integers(5, 5000), st.floats(0.01, 1), st.sampled_from([0.01, 0.05]), st.sampled_from([0.3, 0.8, 0.95]))
@example(5, 1.0, 0.01, 0.95)
def test_the_detectable_difference_has_the_power_it_is_named_for(n, discordance, alpha, power):
    difference = detectable_paired_proportions(n, discordance, alpha=alpha, power=power)

    if difference is None:
        assert power_paired_proportions(n, discordance * 0.999999, discordance, alpha=alpha) < power
    elif difference < discordance * (1 - 1e-9):
        assert power_paired_proportions(n, difference, discordance, alpha=alpha) == pytest.approx(power, abs=1e-6)
        needed = samples_for_paired_proportions(difference, discordance, alpha=alpha, power=power)
        assert needed == pytest.approx(n, abs=1)


def test_detectable_differences_in_percentage_points():
    """Connor 1987 at 80 % power and 5 %."""
    text = [[round(100 * detectable_paired_proportions(n, d), 1) for d in (0.1, 0.2, 0.3)] for n in (100, 200, 1000)]

    assert text == [[8.8, 12.4, 15.2], [6.2, 8.8, 10.8], [2.8, 4.0, 4.8]]
    assert detectable_paired_proportions(30, 0.2) is None
    assert detectable_paired_proportions(30, 0.0) is None


def test_detectable_means_in_standard_deviations():
    text = [round(detectable_mean(n, 1.0), 3) for n in (10, 30, 50, 100, 200, 500, 1000)]

    assert text == [0.996, 0.529, 0.404, 0.283, 0.199, 0.126, 0.089]
    assert detectable_mean(50, 0.2) == pytest.approx(0.2 * detectable_mean(50, 1.0))
    assert detectable_mean(50, 0.0) is None
    with pytest.raises(NotEnoughData, match="1 value"):
        detectable_mean(1, 1.0)


def test_samples_that_prove_a_rate():
    assert samples_to_prove_proportion(0.97, 0.95) == 624
    assert 2700 <= samples_to_prove_proportion(0.96, 0.95) <= 2800
    assert samples_to_prove_proportion(0.97, 0.95, power=0.5) < 400
    assert samples_to_prove_proportion(0.0, 0.05, side="upper") == samples_for_zero(0.05) == 59


def test_samples_for_a_margin_by_the_formula():
    """((1.644854 + 0.841621) * 0.4 / 0.05)^2 = 395.7."""
    assert samples_for_margin(0.05, 0.4) == 396
    assert samples_for_margin(0.05, 0.4, difference=0.05) == 99


@pytest.mark.parametrize(
    "ask",
    [
        lambda: samples_for_paired_proportions(0.3, 0.2),
        lambda: detectable_paired_proportions(100, 1.2),
        lambda: detectable_mean(50, -1.0),
        lambda: samples_for_margin(0.05, math.nan),
        lambda: samples_to_prove_proportion(1.2, 0.5),
        lambda: samples_for_zero(0.0),
    ],
)
def test_impossible_questions_are_refused(ask):
    with pytest.raises(ValueError, match=r"\d|nan"):
        ask()


# -- one proportion -----------------------------------------------------------------------------------------------


INTERVALS = [
    wilson_interval,
    lambda x, n, level=0.95: wilson_interval(x, n, level=level, correction=True),
    clopper_pearson_interval,
]
NAMES = ["wilson", "wilson-cc", "clopper-pearson"]
every_interval = pytest.mark.parametrize("interval", INTERVALS, ids=NAMES)


@every_interval
def test_nothing_asked_leaves_everything_possible(interval):
    assert (interval(0, 0).low, interval(0, 0).high) == (0.0, 1.0)


@every_interval
@pytest.mark.parametrize("counts", [(5, 4), (-1, 4), (0, -1)])
def test_impossible_counts_are_refused(interval, counts):
    with pytest.raises(ValueError, match="at most n="):
        interval(*counts)


# -- paired proportions beyond tango ------------------------------------------------------------------------------


LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


# -- McNemar ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 200), st.integers(0, 200), LEVELS)
def test_discordant_odds_exclude_1_exactly_when_the_exact_test_rejects(gained, lost, level):
    effect, p_value = discordant_odds(gained, lost, level=level), mcnemar_exact(gained, lost)

    if abs(p_value - (1 - level)) > 1e-12:
        assert (effect.interval.low > 1 or effect.interval.high < 1) == (p_value < 1 - level)
    if effect.value is not None:
        assert effect.interval.low <= effect.value <= effect.interval.high


def test_discordant_odds_without_losses_are_infinite():
    effect = discordant_odds(5, 0)

    assert (effect.value, effect.interval.high) == (math.inf, math.inf)
    assert effect.interval.low == pytest.approx(1 / (0.025**-0.2 - 1))
    assert discordant_odds(0, 5).value == 0.0


# -- quantiles ----------------------------------------------------------------------------------------------------


SHARES = st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
NUMBERS = st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=60)


@given(NUMBERS, SHARES)
def test_the_estimate_is_numpys(values, q):
    assert quantile_estimate(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-12, abs=1e-9)


@given(NUMBERS, st.sampled_from([0.25, 0.5, 0.75]), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_interval_of_a_quartile_contains_the_estimate(values, q, level):
    interval = quantile_interval(values, q, level=level)

    assert interval.low <= max(values)
    assert interval.high >= min(values)
    assert interval.low <= quantile_estimate(values, q) <= interval.high


# -- a percentile of grouped replies is bounded where both bounds of the grouped share prove it -------------------


QUANTILE_ALPHA = 0.05


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(8))
def test_the_share_beyond_each_bound_is_proven_by_the_bound_of_a_grouped_rate(seed, q):
    """Uneven groups, of which the small ones are slow as a whole: there each of the two bounds is sometimes the wider one."""
    rng, groups = np.random.default_rng(seed), 100
    sizes = np.minimum(60, rng.pareto(1.1, groups) + 1).astype(int)
    slow = rng.random(groups) < np.where(sizes >= 20, 0.1, 0.5)
    values = np.repeat(np.where(slow, 3.0, 1.0) + rng.random(groups), sizes)
    labels = np.repeat(np.arange(groups), sizes)
    shares = clustered_shares(values, labels)
    arm = {"kind": "binary", "clusters": labels, "alpha": QUANTILE_ALPHA}

    low = clustered_quantile_bound(shares, q, alpha=QUANTILE_ALPHA, side="lower")
    high = clustered_quantile_bound(shares, q, alpha=QUANTILE_ALPHA, side="upper")

    if math.isfinite(low):
        assert mean_bound((values < low).astype(float), **arm, side="upper").value <= q + 1e-9
    if math.isfinite(high):
        assert mean_bound((values <= high).astype(float), **arm, side="lower").value >= q - 1e-9


# -- signs and ranks of paired differences ------------------------------------------------------------------------


DIFFERENCES = st.integers(-4, 4).map(float)
FEW = st.lists(DIFFERENCES, min_size=1, max_size=9)


# -- effects --------------------------------------------------------------------------------------------------------


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


# -- rank tests, dominance and shifts of two independent arms -----------------------------------------------------


GRADES = st.integers(1, 5).map(float)


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


@given(st.lists(GRADES, min_size=2, max_size=12), st.lists(GRADES, min_size=2, max_size=12))
def test_cliffs_delta_mirrors_and_stays_inside_its_interval(first, second):
    delta, mirrored = cliffs_delta(first, second), cliffs_delta(second, first)

    assert delta.value == -mirrored.value
    assert -1 <= delta.interval.low <= delta.value <= delta.interval.high <= 1
    assert delta.interval.low == pytest.approx(-mirrored.interval.high, abs=1e-12)


def test_separated_arms_have_an_interval():
    assert -1 < cliffs_delta([5, 6, 7], [1, 2]).interval.low < 1


# -- pairs of independent arms ------------------------------------------------------------------------------------


fewer_examples = settings(max_examples=choose_examples(25))


@pytest.mark.parametrize(("q", "arms", "dof"), [(3.5, 3, 24), (4.0, 4, 2), (6.0, 10, 30), (0.1, 3, 10), (2.0, 3, 1)])
def test_the_range_agrees_with_another_quadrature(q, arms, dof):
    from scipy.stats import studentized_range

    assert studentized_range_tail(q, arms, dof) == pytest.approx(float(studentized_range.sf(q, arms, dof)), rel=1e-9)


@pytest.mark.parametrize(
    ("arms", "dof", "tabled"), [(3, 10, 3.877), (5, 20, 4.232), (10, 60, 4.646), (3, math.inf, 3.314)]
)
def test_critical_ranges_are_those_of_the_tables(arms, dof, tabled):
    assert studentized_range_critical(0.05, arms, dof) == pytest.approx(tabled, abs=0.0006)


@given(st.floats(0.3, 3e5), st.floats(-3, 3))
def test_the_average_over_the_scale_has_the_moments_of_chi(dof, log_reach):
    reach = math.exp(log_reach)

    assert average_over_scale(np.ones_like, reach, dof) == pytest.approx(1, rel=1e-10)
    assert average_over_scale(np.square, reach, dof) == pytest.approx(1, rel=1e-10)


@given(st.floats(1e-9, 0.999), st.integers(2, 12), st.floats(1, 1e4))
@fewer_examples
def test_the_critical_range_has_the_tail_that_it_promises(alpha, arms, dof):
    assert studentized_range_tail(studentized_range_critical(alpha, arms, dof), arms, dof) == pytest.approx(
        alpha, rel=1e-9
    )
