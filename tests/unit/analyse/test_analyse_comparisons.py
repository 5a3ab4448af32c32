"""Comparisons of two arms by means and ratios, and of neighbouring samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from answer_builders import score_column
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.stats import binom, multinomial, norm, t

from pytest_crucible.analyse.comparisons import compare_means
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import Contrast, MetricFacts
from pytest_crucible.stats import gaffke_bound
from pytest_crucible.stats.checks import is_noteworthy, serial_correlation

BINARY = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)
SHARE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
NUMBER = MetricFacts(name="m", kind="unbounded")
WIDE = MetricFacts(name="m", kind="bounded", low=-9.0, high=9.0)
FLAGGED = MetricFacts(name="m", kind="binary", low=0.0, high=1.0, direction="lower")
SECONDS = MetricFacts(name="m", kind="unbounded", low=0.0, direction="lower")
PLAIN = Contrast(metric="m", baseline="v1")
bits = st.sampled_from([0.0, 1.0])
shares = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


def compare(ours, theirs, facts=BINARY, contrast=PLAIN, clusters=None, *, family_size=1, alpha=0.05):
    pair = score_column(ours, facts), score_column(theirs, facts)
    codes = None if clusters is None else np.array(clusters)
    return compare_means(contrast, facts, "v2", pair, codes, alpha=alpha, family_size=family_size)


def table(both, gained, lost, neither):
    """Candidate and baseline with that many of each kind of pair."""
    pairs = [(1, 1)] * both + [(1, 0)] * gained + [(0, 1)] * lost + [(0, 0)] * neither
    return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


# -- sign ---------------------------------------------------------------------------------------------------------


def test_a_better_candidate_has_a_positive_difference():
    comparison = compare(*table(20, 6, 1, 3))

    assert comparison.difference == pytest.approx(5 / 30)
    assert (comparison.pairs, comparison.lost, comparison.method) == (30, 0, "exact unconditional")


@given(st.lists(st.tuples(bits, bits), min_size=3, max_size=40))
def test_the_direction_flips_the_sign_of_everything(pairs):
    ours, theirs = zip(*pairs, strict=True)
    up, down = compare(ours, theirs), compare(ours, theirs, FLAGGED)

    assert up.difference == -down.difference
    assert (up.interval.low, up.interval.high) == pytest.approx((-down.interval.high, -down.interval.low), abs=1e-9)
    assert up.evidence.observed.lower == pytest.approx(-down.evidence.observed.upper, abs=1e-9)
    assert up.p_value == pytest.approx(down.p_value)


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=30))
def test_swapping_arms_flips_the_sign(pairs):
    ours, theirs = zip(*pairs, strict=True)
    there, back = compare(ours, theirs, SHARE), compare(theirs, ours, SHARE)

    assert there.difference == pytest.approx(-back.difference, abs=1e-12)
    assert there.p_value == pytest.approx(back.p_value, abs=1e-9)


# -- pairs --------------------------------------------------------------------------------------------------------


def test_only_samples_that_both_arms_answered_are_paired():
    comparison = compare([1, None, "n/a", 1, 0, 1], [1, 1, "n/a", None, 1, 1])

    assert (comparison.pairs, comparison.lost, comparison.difference) == (3, 2, -1 / 3)


def test_no_pair_is_no_number_and_says_so():
    comparison = compare([None, "n/a"], [1, 1])

    assert (comparison.pairs, comparison.difference, comparison.interval) == (0, None, None)
    assert comparison.p_value is comparison.p_exact is comparison.detectable is comparison.needed is None
    assert (comparison.evidence.observed.lower, comparison.evidence.observed.upper) == (None, None)
    assert comparison.evidence.method == "none"
    assert comparison.note == "m has a number for no reply of the candidate"


def test_one_pair_has_a_difference_and_no_interval():
    comparison = compare([1], [0])

    assert (comparison.difference, comparison.interval, comparison.p_value) == (1.0, None, None)
    assert comparison.note == "1 pair: a comparison needs at least 2"


def test_equal_arms_differ_by_nothing_and_not_surely():
    comparison = compare([1] * 50, [1] * 50)

    assert (comparison.difference, comparison.p_value) == (0.0, 1.0)
    assert comparison.interval.low < 0 < comparison.interval.high
    assert (round(comparison.interval.low, 3), round(comparison.interval.high, 3)) == (-0.071, 0.071)


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=30))
def test_the_p_value_of_the_proof_and_the_interval_agree(pairs):
    comparison = compare(*zip(*pairs, strict=True), SHARE)

    assert comparison.interval.low <= comparison.difference <= comparison.interval.high
    if abs(comparison.proof_p - 0.05) > 1e-6:
        assert (comparison.proof_p < 0.05) == (not comparison.interval.low <= 0 <= comparison.interval.high)


def test_clusters_are_what_varies():
    """Ten groups of four in which all samples agree are ten facts, not forty."""
    groups = np.repeat(np.arange(10), 4)
    ours = np.repeat([1, 1, 1, 0, 1, 1, 0, 1, 1, 1], 4)
    theirs = np.repeat([0, 1, 0, 0, 0, 1, 1, 1, 0, 1], 4)
    comparison = compare(ours.tolist(), theirs.tolist(), clusters=groups)

    # Five groups differ, so they alone have signs to flip, four of them by +1: as extreme are four or five signs that agree.
    assert (comparison.clusters, comparison.pairs, comparison.method) == (10, 40, "sign flips")
    assert comparison.p_value == pytest.approx(2 * binom.cdf(1, 5, 0.5))
    assert (comparison.arrangements, comparison.is_exact) == (2**5, True)
    # Ten single samples differ as much, and prove no more.
    alone = compare(ours[::4].tolist(), theirs[::4].tolist(), SHARE)
    assert (comparison.p_value, comparison.proof_p) == pytest.approx((alone.p_value, alone.proof_p))
    assert comparison.interval.low == pytest.approx(alone.interval.low)
    assert comparison.interval.high == pytest.approx(alone.interval.high)
    assert comparison.note == ""


def test_too_few_clusters_give_a_difference_and_a_reason():
    comparison = compare([1, 0, 1, 1], [0, 0, 1, 0], clusters=[0, 0, 1, 1])

    assert (comparison.difference, comparison.interval) == (0.5, None)
    assert "cluster" in comparison.note


# -- one-sided bounds ---------------------------------------------------------------------------------------------

GRADES = [0.2, 0.4, 0.9, 0.7, 0.6, 0.8]


@pytest.mark.parametrize(
    ("ours", "theirs", "facts", "clusters", "method"),
    [
        (*table(20, 6, 1, 3), BINARY, None, "exact unconditional"),
        (GRADES, GRADES[::-1], SHARE, None, "gaffke"),
        (GRADES, GRADES[::-1], NUMBER, None, "none"),
        (*table(20, 6, 1, 3), BINARY, np.arange(30) // 5, "gaffke"),
        (GRADES, GRADES[::-1], NUMBER, [0, 0, 1, 1, 2, 2], "none"),
    ],
    ids=["bits", "shares", "numbers", "bits in groups", "numbers in groups"],
)
def test_the_method_of_the_bounds_has_its_name(ours, theirs, facts, clusters, method):
    assert compare(ours, theirs, facts, clusters=clusters).evidence.method == method


# -- lost ---------------------------------------------------------------------------------------------------------

maybe = st.sampled_from([0.0, 1.0, 0.0, 1.0, None])


@pytest.mark.slow
@given(st.lists(st.tuples(maybe, maybe), min_size=2, max_size=6), st.sampled_from([BINARY, FLAGGED]))
@settings(max_examples=choose_examples(50))
def test_no_lost_bit_can_make_the_difference_lie_outside_its_extremes(pairs, facts):
    """Over all that the lost could have been; and bounds that hold at the extremes hold in between."""
    cells = [entry for pair in pairs for entry in pair]
    evidence = compare(cells[::2], cells[1::2], facts).evidence
    holes = [k for k, cell in enumerate(cells) if cell is None]
    values = []
    for filling in itertools.product((0.0, 1.0), repeat=len(holes)):
        filled = list(cells)
        for k, item in zip(holes, filling, strict=True):
            filled[k] = item
        observed = compare(filled[::2], filled[1::2], facts).evidence.observed
        values.append(observed.value)

        assert evidence.worst.lower <= observed.lower + 1e-9
        assert observed.upper <= evidence.best.upper + 1e-9
    assert (evidence.worst.value, evidence.best.value) == pytest.approx((min(values), max(values)))


def test_a_lost_value_of_a_sample_to_which_the_metric_does_not_apply_is_not_missed():
    comparison = compare([None, 1, 0], ["n/a", 1, 1])

    assert comparison.lost == 0
    assert comparison.evidence.worst == comparison.evidence.observed


def test_a_lost_value_without_bounds_leaves_no_extreme():
    comparison = compare([1.0, 2.0, None], [1.5, 2.0, 1.0], NUMBER)

    assert comparison.evidence.worst.value is None
    assert comparison.evidence.best.value is None
    assert comparison.evidence.observed.value == -0.25


# -- sizes --------------------------------------------------------------------------------------------------------


def mcnemar_power(n, gained, lost, alpha):
    """Power of McNemar's uncorrected test by its multinomial distribution, for every table."""
    ours, theirs = np.meshgrid(np.arange(n + 1), np.arange(n + 1))
    inside = (ours + theirs <= n) & (ours + theirs > 0)
    ours, theirs = ours[inside], theirs[inside]
    rejected = (ours - theirs) ** 2 >= norm.ppf(1 - alpha / 2) ** 2 * (ours + theirs)
    table = np.column_stack([ours, theirs, n - ours - theirs])[rejected]
    return multinomial.pmf(table, n, [gained, lost, 1 - gained - lost]).sum()


@pytest.mark.parametrize("family_size", [1, 6])
def test_the_difference_that_these_bits_can_show(family_size):
    comparison = compare(*table(120, 30, 14, 36), family_size=family_size)
    both, d = 44 / 200, comparison.detectable

    assert mcnemar_power(200, (both + d) / 2, (both - d) / 2, 0.05 / family_size) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("changed", [0, 1, 3])
def test_bits_that_hardly_change_show_a_difference_in_which_all_go_one_way(changed):
    """Today's few discordant pairs are no reason to print nothing."""
    d = compare(*(table(196 - changed, changed, 0, 4) if changed else ([1] * 200,) * 2)).detectable
    both = max(d, changed / 200)

    assert mcnemar_power(200, (both + d) / 2, (both - d) / 2, 0.05) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("family_size", [1, 6])
def test_the_difference_that_these_scores_can_show(family_size):
    ours, theirs = np.random.default_rng(1).random((2, 40))
    comparison = compare(ours.tolist(), theirs.tolist(), SHARE, family_size=family_size)

    spread, critical = (ours - theirs).std(ddof=1), t.ppf(1 - 0.05 / family_size / 2, 39)
    # The error that the run measured is as uncertain as that of the next one: averaged over both, by simulation.
    rng = np.random.default_rng(2)
    before, after = np.sqrt(rng.chisquare(39, (2, 100_000)) / 39)
    shift = comparison.detectable / spread * math.sqrt(40)
    power = np.mean(np.abs(rng.standard_normal(100_000) + shift * before) > critical * after)

    assert power == pytest.approx(0.8, abs=0.006)


def test_few_groups_show_less_by_their_degrees_of_freedom():
    """Six groups of twenty: t of 5 degrees of freedom, and an error that is uncertain itself."""
    rng, groups = np.random.default_rng(3), np.repeat(np.arange(6), 20)
    ours, theirs = rng.standard_normal((2, 120)) + rng.standard_normal((2, 6))[:, groups]

    comparison = compare(ours.tolist(), theirs.tolist(), WIDE, clusters=groups)
    means = np.array([(ours - theirs)[groups == group].mean() for group in range(6)])

    assert comparison.detectable == pytest.approx(4.2126 * means.std(ddof=1) / math.sqrt(6), rel=1e-3)


@pytest.mark.parametrize("family_size", [1, 6])
def test_the_n_that_would_decide_at_this_difference(family_size):
    needed = compare(*table(120, 30, 14, 36), family_size=family_size).needed

    assert mcnemar_power(needed, 30 / 200, 14 / 200, 0.05 / family_size) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    ("alternative", "distance"), [("non-inferior", 0.08 + 0.1), ("superior", 0.1 - 0.08), ("equivalent", 0.1 - 0.08)]
)
def test_the_n_that_would_decide_at_a_margin(alternative, distance):
    """Distance from where the verdict turns; gates with a margin share no alpha."""
    ours, theirs = np.array(table(120, 30, 14, 36))
    contrast = Contrast(metric="m", baseline="v1", alternative=alternative, margin=0.1)
    spread, z = (ours - theirs).std(ddof=1), norm.ppf(0.95) + norm.ppf(0.8)

    comparison = compare(ours.tolist(), theirs.tolist(), contrast=contrast, family_size=6)
    # Tango's variance under the margin differs from that of the data.
    assert comparison.needed == pytest.approx((z * spread / distance) ** 2, rel=0.16)


def test_between_two_margins_both_bounds_must_clear():
    """A difference in the middle: each bound needs a chance of 90 %, and allows for differences at the ends."""
    contrast = Contrast(metric="m", baseline="v1", alternative="equivalent", margin=0.1)
    rng = np.random.default_rng(4)
    theirs = rng.random(400)
    ours = theirs + (shuffled := rng.standard_normal(400)) - shuffled.mean()
    span = WIDE.high - WIDE.low

    comparison = compare(ours.tolist(), theirs.tolist(), WIDE, contrast=contrast)
    runs = rng.choice(ours - theirs, (200, comparison.needed))
    lows, highs = (
        [gaffke_bound(run, end=end, alpha=0.05, side=side) for run in runs]
        for end, side in ((-span, "lower"), (span, "upper"))
    )
    assert 0.72 < np.mean([low > -0.1 and high < 0.1 for low, high in zip(lows, highs, strict=True)]) < 0.88


@pytest.mark.parametrize(
    ("lost", "same_as"),
    [
        (14, Contrast(metric="m", baseline="v1", alternative="non-inferior", margin=0.1)),
        (40, Contrast(metric="m", baseline="v1", alternative="non-inferior", margin=0.1)),
        (90, PLAIN),
    ],
    ids=["better", "worse by less", "worse by more"],
)
def test_the_n_that_settles_a_relevant_difference_excludes_it_or_proves_a_regression(lost, same_as):
    relevant = Contrast(metric="m", baseline="v1", relevant=0.1)
    data = table(120, 30, lost, 36)
    item, other = (compare(*data, contrast=contrast, family_size=6) for contrast in (relevant, same_as))

    assert item.needed == other.needed
    assert item.needed is not None
    # It keeps its share of alpha in the family, as a comparison without it does.
    assert item.detectable == compare(*data, family_size=6).detectable


def test_equal_arms_have_no_deciding_number_of_samples():
    constant = compare([0.5] * 10, [0.5] * 10, SHARE)

    assert compare(*table(10, 3, 3, 10)).needed is None
    assert (constant.detectable, constant.needed) == (None, None)


# -- impossible margins -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("margin", "is_error"), [(0.99, False), (1.0, True), (5.0, True)])
def test_a_margin_that_no_two_values_could_exceed_is_an_error_of_the_suite(margin, is_error):
    wide = Contrast(metric="m", baseline="v1", alternative="non-inferior", margin=margin)

    assert bool(compare(*table(3, 2, 1, 4), BINARY, wide).suite_error) == is_error
    assert compare(*table(3, 2, 1, 4), NUMBER, wide).suite_error == ""


SCORE = MetricFacts(name="m", kind="bounded", low=-20.0, high=20.0)
AMOUNT = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")


def autoregression(n, coefficient, seed=0):
    rng = np.random.default_rng(seed)
    values = np.zeros(n + 50)
    for place in range(1, n + 50):
        values[place] = coefficient * values[place - 1] + rng.normal()
    return values[50:]


def test_correlated_order_has_a_warning_with_the_effective_number_of_samples():
    values = autoregression(300, 0.5)
    comparison = compare(values, np.zeros(300), SCORE)

    assert "samples that follow each other in the dataset resemble each other (correlation 0." in comparison.note
    assert "300 count like about" in comparison.note
    assert serial_correlation(values).effective_n == pytest.approx(100, rel=0.35)


def test_groups_and_shuffled_samples_have_none():
    values = autoregression(300, 0.5)
    shuffled = np.random.default_rng(1).permutation(values)

    assert "follow each other" not in compare(values, np.zeros(300), SCORE, clusters=np.arange(300) // 10).note
    assert compare(shuffled, np.zeros(300), SCORE).note == ""


def test_amounts_are_correlated_on_the_scale_on_which_they_are_compared():
    ratios = np.exp(autoregression(300, 0.7))

    assert "m: samples that follow" in compare(ratios, np.ones(300), AMOUNT).note
    assert "mean(m): samples that follow" in compare(ratios, np.ones(300), AMOUNT, parse_contrast("mean(m)")).note


def test_the_correlation_is_that_of_a_closed_form():
    """1, 2, ..., 20: sum of d_i d_(i+1) over sum of d_i^2, with d_i = i - 10.5."""
    distances = np.arange(1, 21) - 10.5
    expected = float((distances[1:] * distances[:-1]).sum() / (distances**2).sum())

    assert serial_correlation(np.arange(1.0, 21.0)).correlation == pytest.approx(expected)
    assert serial_correlation(np.arange(19.0)) is None
    assert serial_correlation(np.ones(50)) is None


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_two_neighbours_that_differ_are_chance(share):
    """Two of 2 in 100 samples stand side by side in 2 % of all orders; the normal tail has 1e-6."""
    rng, n = np.random.default_rng(2), 100
    orders = (rng.permutation(np.arange(n) < share * n).astype(float) for _ in range(1_000))
    alarms = sum(map(is_noteworthy, map(serial_correlation, orders)))

    assert alarms <= 6
