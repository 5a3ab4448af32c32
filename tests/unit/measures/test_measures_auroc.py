"""The area under the ROC curve: its definition, DeLong's variance by hand and by brute force, clusters, and edges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm, t

from pytest_crucible.measures import auroc
from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.records import Measure, MetricFacts, Sample
from pytest_crucible.records.datasets import label_number

FACTS = MetricFacts(name="score", kind="unbounded")
MEASURE = Measure(statistic="auroc", metric="score")


def prepare(positives, negatives, clusters=None) -> Prepared:
    values = np.array([*positives, *negatives], dtype=float)
    labels = np.array([1.0] * len(positives) + [0.0] * len(negatives))
    return Prepared(values=values, strata=labels, clusters=None if clusters is None else np.array(clusters))


def observations(values, expected, low=None, high=None) -> Observations:
    """None is lost: -inf and inf at the ends, or `low` and `high`."""
    column = np.array([math.nan if single is None else single for single in values])
    lost = np.isnan(column)
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return Observations(
        measure=MEASURE,
        facts=(FACTS,),
        columns=(Column(column, np.where(lost, ends[0], column), np.where(lost, ends[1], column)),),
        lost=lost,
        expected=expected,
    )


def brute_force(positives, negatives):
    """Area and DeLong's variance from all pairs, in fractions."""
    pairs = [[Fraction(2 * (a > b) + (a == b), 2) for b in negatives] for a in positives]
    rows = [sum(row) / len(negatives) for row in pairs]
    columns = [sum(column) / len(positives) for column in zip(*pairs, strict=True)]
    area = sum(rows) / len(rows)

    def part(values):
        return sum((single - area) ** 2 for single in values) / (len(values) - 1) / len(values)

    return float(area), float(part(rows) + part(columns))


few = st.lists(st.integers(0, 4), min_size=2, max_size=8)


# -- the area -----------------------------------------------------------------------------------------------------


@given(few, few)
def test_the_area_is_that_of_mann_and_whitney(positives, negatives):
    u = mannwhitneyu(positives, negatives).statistic / len(positives) / len(negatives)

    assert auroc.estimate(prepare(positives, negatives), 0.95).value == pytest.approx(u)


@given(few, few)
def test_the_area_and_its_variance_are_those_of_all_pairs(positives, negatives):
    area = auroc.estimate_area(prepare(positives, negatives))

    assert (area.value, area.variance) == pytest.approx(brute_force(positives, negatives), abs=1e-12)


# -- bounds -------------------------------------------------------------------------------------------------------


@given(few, few, st.floats(0.001, 0.4))
def test_the_bounds_hold_the_area_between_them(positives, negatives, alpha):
    reading, method = auroc.bound(prepare(positives, negatives), alpha)

    assert 0 <= reading.lower <= reading.value <= reading.upper <= 1
    assert method == "delong"


def test_the_interval_is_two_one_sided_bounds():
    values = prepare([3, 1, 4, 5, 2], [2, 0, 1, 1])
    interval = auroc.estimate(values, 0.9).interval
    reading, _ = auroc.bound(values, 0.05)

    assert (interval.low, interval.high, interval.level) == (reading.lower, reading.upper, 0.9)


def test_perfect_separation_is_no_proof_of_a_perfect_area():
    """Ten disjoint pairs went the right way: the binomial bound 0.05^(1/10), or the score bound below it."""
    reading, _ = auroc.bound(prepare(range(10, 20), range(10)), 0.05)

    assert reading.value == reading.upper == 1.0
    assert reading.lower <= 0.05 ** (1 / 10) + 1e-12
    assert reading.lower > 0.6


def test_the_score_bound_solves_newcombe_s_equation():
    area = auroc.Area(0.8, 0.002, 50.0)
    low = auroc._score_bound(area, (40, 60), 1.0, 0.05, 0.0)

    half = norm.ppf(0.95) * math.sqrt(auroc._newcombe_variance(low, 40, 60))
    assert 0.8 - low == pytest.approx(half, rel=1e-6)


def test_one_sample_of_a_class_has_an_area_and_no_bounds():
    values = prepare([3], [1, 2, 4])
    measured, (reading, _) = auroc.estimate(values, 0.95), auroc.bound(values, 0.05)

    assert (measured.value, measured.interval) == (pytest.approx(2 / 3), None)
    assert (reading.value, reading.lower, reading.upper) == (pytest.approx(2 / 3), None, None)


# -- clusters -----------------------------------------------------------------------------------------------------


def test_the_clustered_variance_is_obuchowski_s():
    """The formulas are hers, cluster by cluster, on four clusters of which two hold samples of both classes."""
    positives, negatives, clusters = [3, 1, 4, 2, 5], [2, 0, 1, 3], [0, 0, 1, 2, 2, 0, 1, 3, 3]
    value = auroc.estimate_area(prepare(positives, negatives)).value
    pairs = np.array([[(a > b) + (a == b) / 2 for b in negatives] for a in positives])
    high, low = pairs.mean(axis=1) - value, pairs.mean(axis=0) - value
    sums = np.array(
        [[high[np.array(clusters[:5]) == c].sum(), low[np.array(clusters[5:]) == c].sum()] for c in range(4)]
    )
    variance = (
        3 / 2 * (sums[:, 0] ** 2).sum() / 25  # three clusters have positives
        + 3 / 2 * (sums[:, 1] ** 2).sum() / 16  # three have negatives
        + 2 * 4 / 3 * (sums[:, 0] * sums[:, 1]).sum() / 20
    )

    assert auroc.estimate_area(prepare(positives, negatives, clusters)).variance == pytest.approx(variance)


# -- two arms -----------------------------------------------------------------------------------------------------


def two_arms(seed=3, m=20, n=30):
    rng = np.random.default_rng(seed)
    ours, theirs = (rng.normal(size=m + n) + np.r_[np.full(m, shift), np.zeros(n)] for shift in (1.5, 0.5))
    return (prepare(ours[:m], ours[m:]), prepare(theirs[:m], theirs[m:]))


def test_a_difference_is_delong_s_on_the_same_samples():
    """Variance of both placements minus twice their covariance; R pROC's Z is the difference over its root."""
    ours, theirs = two_arms()
    high = [auroc.placements(single)[0] for single in (ours, theirs)]
    low = [auroc.placements(single)[1] for single in (ours, theirs)]
    covariance = np.cov(high) / 20 + np.cov(low) / 30
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    result = auroc.compare(ours, theirs, 0.05)

    assert result.value == pytest.approx(auroc.estimate_area(ours).value - auroc.estimate_area(theirs).value)
    assert result.deviation / math.sqrt(50) == pytest.approx(math.sqrt(variance))
    parts = [np.var(np.subtract(*single), ddof=1) / len(single[0]) for single in (high, low)]
    dof = sum(parts) ** 2 / (parts[0] ** 2 / 19 + parts[1] ** 2 / 29)
    assert result.p_value == pytest.approx(2 * t.sf(abs(result.value) / math.sqrt(variance), dof))
    half = t.ppf(0.975, dof) * math.sqrt(variance)
    assert (result.interval.low, result.interval.high) == pytest.approx((result.value - half, result.value + half))


@given(st.integers(0, 200), st.floats(0.01, 0.4))
def test_interval_and_p_value_agree(seed, alpha):
    result = auroc.compare(*two_arms(seed, 6, 7), alpha)

    assert (result.p_value < alpha) == (not result.interval.low <= 0 <= result.interval.high)


def test_equal_arms_differ_by_nothing_and_not_surely():
    ours, _ = two_arms()
    result = auroc.compare(ours, ours, 0.05)

    assert (result.value, result.p_value) == (0.0, 1.0)
    assert result.interval.low < 0 < result.interval.high
    assert result.lower < 0 < result.upper


def test_one_sample_of_a_class_has_a_difference_and_a_reason():
    result = auroc.compare(prepare([3], [1, 2]), prepare([1], [2, 0]), 0.05)

    assert (result.value, result.interval, result.p_value) == (0.5, None, None)
    assert result.note == "fewer than 2 samples of a class, or clusters with one: a comparison needs at least 2 of each"


# -- labels and lost samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "label"),
    [(True, 1), (False, 0), (1, 1), (0.0, 0), ("yes", 1), (" No ", 0), ("TRUE", 1), ("0", 0), (2, None), (None, None)],
)
def test_a_label_is_yes_or_no(expected, label):
    assert label_number(expected) == label


def test_expected_values_that_are_no_labels_are_named():
    samples = [Sample(id="a", input=1, expected="yes"), Sample(id="b", input=2, expected="SUPPORTS")]

    assert auroc.expected_problem(samples) == (
        "needs a yes-or-no expected, and sample 'b' has 'SUPPORTS': write true or false, yes or no, 1 or 0"
    )
    assert auroc.expected_problem(samples[:1]) == (
        "needs samples of both classes, and all 1 have expected='yes': add samples of the other class"
    )
    assert auroc.expected_problem([samples[0], Sample(id="c", input=3, expected=False)]) == ""


def test_lost_scores_lie_where_the_area_is_lowest_and_highest():
    observed = observations([2, None, 1, None], [True, True, False, False])

    assert auroc.prepare(observed, "low").values.tolist() == [2, -math.inf, 1, math.inf]
    assert auroc.prepare(observed, "high").values.tolist() == [2, math.inf, 1, -math.inf]
    low, high = (auroc.bound(auroc.prepare(observed, end), 0.05)[0].value for end in ("low", "high"))
    assert (low, high) == (0.25, 1.0)


@pytest.mark.parametrize(
    ("expected", "problem"),
    [([], "the samples have no yes-or-no expected"), ([True, True], "all scored samples have one label")],
)
def test_scores_without_two_classes_have_no_area(expected, problem):
    values = auroc.prepare(observations([1, 2], expected), "observed")

    assert auroc.estimate(values, 0.95) == auroc.Measured(None, None, None, problem)
    assert auroc.bound(values, 0.05)[0].value is None
    assert auroc.compare(values, values, 0.05) is None
