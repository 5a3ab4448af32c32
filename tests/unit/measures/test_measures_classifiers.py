"""Average precision, curves, pooled rates, and thresholds by benign scores."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_crucible.measures import auroc, pooled
from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.records import Measure, MetricFacts
from pytest_crucible.stats import classifiers
from pytest_crucible.stats.classifiers import allowed_alarms, benign_texts_needed, choose_threshold, smallest_rate

SCORES = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5, 0.9, 1.0]), st.booleans()), min_size=4, max_size=30).filter(
    lambda rows: 2 <= sum(label for _, label in rows) <= len(rows) - 2
)  # fmt: skip


def table(rows):
    return np.array([score for score, _ in rows]), np.array([float(label) for _, label in rows])


def counts(part, whole, clusters=None) -> Prepared:
    return Prepared(
        values=np.array(part, dtype=float),
        strata=np.array(whole, dtype=float),
        clusters=None if clusters is None else np.array(clusters),
        bounds=(0.0, 1.0),
    )


def average_precision_by_hand(scores, labels):
    total, last = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        flagged = [label for score, label in zip(scores, labels, strict=True) if score >= threshold]
        recall = sum(flagged) / sum(labels)
        total += (recall - last) * sum(flagged) / len(flagged)
        last = recall
    return total


@given(SCORES)
def test_average_precision_is_its_definition(rows):
    scores, labels = table(rows)

    assert pooled.average_precision(scores, labels) == pytest.approx(average_precision_by_hand(scores, labels))


@given(SCORES)
def test_curves_rise_from_one_corner_to_the_other(rows):
    roc = classifiers.roc_points(*table(rows))
    recall = [point[0] for point in classifiers.precision_recall_points(*table(rows))]

    assert (roc[0], roc[-1]) == ((0.0, 0.0), (1.0, 1.0))
    assert roc == sorted(roc)
    assert recall == sorted(recall)
    assert recall[-1] == 1
    # The area under the straight lines of the ROC curve is the statistic itself.
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(roc))
    scores, labels = table(rows)
    assert area == pytest.approx(auroc.estimate(Prepared(values=scores, strata=labels), 0.95).value)


def test_perfect_separation_has_an_interval():
    prepared = Prepared(values=np.r_[np.ones(10), np.zeros(20)], strata=np.r_[np.ones(10), np.zeros(20)])
    measured = pooled.estimate_average_precision(prepared, 0.95)
    of_counts = pooled.estimate(counts([2] * 20, [2] * 20), 0.95)

    assert measured.value == 1
    assert measured.interval.low == pytest.approx(0.025 ** (1 / 10))
    assert of_counts.value == 1
    assert 0.8 < of_counts.interval.low < 1


@given(SCORES, st.integers(1, 5))
def test_intervals_hold_the_estimate(rows, groups):
    scores, labels = table(rows)
    prepared = Prepared(values=scores, strata=labels, clusters=np.arange(len(scores)) // groups)
    measured = pooled.estimate_average_precision(prepared, 0.95)
    bounds, _ = pooled.bound_average_precision(prepared, 0.05)

    assert measured.interval.low <= measured.value <= measured.interval.high
    assert measured.interval.low <= bounds.lower <= bounds.value <= bounds.upper <= measured.interval.high


def test_a_better_arm_is_better():
    rng = np.random.default_rng(3)
    labels = np.r_[np.ones(80), np.zeros(120)]
    good, bad = labels + rng.normal(size=200) * 0.5, labels + rng.normal(size=200) * 3
    better = pooled.compare_average_precision(*(Prepared(values=scores, strata=labels) for scores in (good, bad)), 0.05)
    same = pooled.compare_average_precision(*(Prepared(values=good, strata=labels) for _ in range(2)), 0.05)

    assert better.p_value < 0.001
    assert better.interval.low > 0
    assert same.value == 0
    assert same.p_value == 1
    assert same.lower < 0 < same.upper


# -- pooled rates ---------------------------------------------------------------------------------------------------


def test_recall_is_pooled_over_texts_and_clustered_by_them():
    prepared = counts([5, 0, 1, 1, 1, 0, 1, 1], [5, 5, 1, 1, 1, 1, 1, 1])
    measured = pooled.estimate(prepared, 0.95)
    alone = pooled.estimate(counts([1] * 10 + [0] * 6, [1] * 16), 0.95)

    assert measured.value == 10 / 16
    # Five spans of one text say less than five texts.
    assert measured.interval.high - measured.interval.low > alone.interval.high - alone.interval.low


def test_groups_widen_the_interval():
    part, whole = [1, 1, 1, 1, 0, 0, 0, 0] * 4, [1] * 32
    alone = pooled.estimate(counts(part, whole), 0.95)
    grouped = pooled.estimate(counts(part, whole, [k // 4 for k in range(32)]), 0.95)

    assert grouped.clusters == 8
    assert grouped.interval.low < alone.interval.low


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=8, max_size=40).filter(
        lambda rows: any(a or b for a, b in rows)
    )
)
def test_f1_is_the_harmonic_mean(rows):
    flagged, positive = (np.array([float(row[k]) for row in rows]) for k in (0, 1))
    prepared = pooled.prepare_f1(prepare_decisions(flagged, expected=[bool(label) for label in positive]), "observed")
    right = float((flagged * positive).sum())
    precision, recall = right / max(flagged.sum(), 1), right / max(positive.sum(), 1)
    harmonic = 2 * precision * recall / (precision + recall) if right else 0.0

    assert pooled._ratio(prepared) == pytest.approx(harmonic)


def prepare_decisions(values, low=None, high=None, expected=(), further=()):
    columns = tuple(
        Column(
            np.asarray(column, dtype=float),
            *(np.where(np.isnan(column), end, column) for end in (low or 0.0, high or 1.0)),
        )
        for column in (values, *further)
    )
    return Observations(
        measure=Measure(statistic="f1", metric="flagged"),
        facts=(MetricFacts(name="flagged", kind="binary", low=0, high=1),),
        columns=columns,
        lost=np.isnan(np.asarray(values, dtype=float)),
        expected=list(expected),
    )


def test_lost_flags_make_f1_as_low_or_as_high_as_it_can_be():
    values = np.array([1.0, math.nan, 0.0, math.nan])
    decisions = prepare_decisions(values, expected=[True, True, False, False])

    assert pooled._ratio(pooled.prepare_f1(decisions, "low")) == pytest.approx(0.5)
    assert pooled._ratio(pooled.prepare_f1(decisions, "high")) == 1


def test_f1_is_of_flags():
    measure = Measure(statistic="f1", metric="guard_score")
    score = MetricFacts(name="guard_score", kind="bounded", low=0.0, high=1.0)

    assert "'guard_score' is not a yes-or-no metric" in pooled.flags_problem(measure, [score])
    assert pooled.flags_problem(measure, [MetricFacts(name="flagged", kind="binary")]) == ""


def test_a_lost_text_has_as_many_spans_as_the_average():
    decisions = prepare_decisions(np.array([1.0, 3.0, math.nan]), further=(np.array([2.0, 3.0, math.nan]),))

    low, high = (pooled.prepare_counts(decisions, end) for end in ("low", "high"))
    assert (low.values.tolist(), low.strata.tolist()) == ([1, 3, 0], [2, 3, 3])
    assert (high.values.tolist(), high.strata.tolist()) == ([1, 3, 3], [2, 3, 3])


def test_arms_are_compared_text_by_text():
    rng = np.random.default_rng(4)
    whole = rng.integers(1, 4, 100)
    ours = counts(rng.binomial(whole, 0.9), whole)
    theirs = counts(rng.binomial(whole, 0.6), whole)
    better, same = pooled.compare(ours, theirs, 0.05), pooled.compare(ours, ours, 0.05)

    assert better.value == pytest.approx(pooled._ratio(ours) - pooled._ratio(theirs))
    assert better.p_value < 0.001
    assert (better.interval.low > 0) == (better.p_value < 0.05)
    assert same.value == 0
    assert same.p_value == 1
    assert same.interval.low < 0 < same.interval.high


# -- thresholds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.01, 0.025, 0.05, 0.2])
def test_the_fewest_texts_are_those_that_can_bound_the_rate(rate):
    n = benign_texts_needed(rate)

    assert allowed_alarms(n, rate) == 0
    assert allowed_alarms(n - 1, rate) is None
    assert smallest_rate(n) <= rate < smallest_rate(n - 1)


@given(n=st.integers(60, 3000), rate=st.sampled_from([0.01, 0.05, 0.1]))
def test_no_more_alarms_are_allowed_than_the_bound_allows(n, rate):
    allowed = allowed_alarms(n, rate)
    if allowed is not None:
        assert binom.cdf(allowed, n, rate) <= 0.05 < binom.cdf(allowed + 1, n, rate)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]), min_size=299, max_size=600))
def test_a_threshold_flags_no_more_than_is_allowed_and_is_the_lowest(scores):
    threshold = choose_threshold(scores, 0.01)
    allowed = allowed_alarms(len(scores), 0.01)

    assert sum(score >= threshold for score in scores) <= allowed
    assert sum(score >= threshold - 2e-6 for score in scores) > allowed
    assert threshold == round(threshold, 6)


def test_too_few_texts_choose_nothing():
    assert choose_threshold([0.1] * 298, 0.01) is None
