"""The four functions that the rest of the program calls, and the table they follow."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pytest_crucible.stats import (
    TABLE,
    clopper_pearson_bound,
    clustered_mean,
    compare,
    difference_bounds,
    estimate,
    gaffke_bound,
    mcnemar_exact,
    mean_bound,
    mean_interval,
    paired_t,
    wilson_interval,
)
from pytest_crucible.stats.proportions.exact import paired_exact_bound, paired_exact_test
from pytest_crucible.stats.proportions.one import korn_graubard_bound
from pytest_crucible.stats.resampling.alikeness import flip_signs

OPEN = (-math.inf, math.inf)
UNIT = (0.0, 1.0)
RNG = np.random.default_rng(11)
RIGHT, WRONG = np.ones(30), np.zeros(30)
SCORES = RNG.random(30)
OTHERS = RNG.random(30)
FIVES = np.repeat(np.arange(6), 5)


def compare_arms(candidate, baseline, *, level=0.95, **facts):
    return compare(candidate, baseline, alpha=1 - level, **facts)


def test_the_table_answers_every_question_about_every_kind_once():
    question = {(row.question, row.design, row.scale, row.clustered) for row in TABLE}
    without_guarantee = [row for row in TABLE if not row.question.startswith(("guaranteed", "ratio"))]

    assert len(question) == len(TABLE)
    assert len(without_guarantee) == (2 + 2 + 2) * 3 * 2


@pytest.mark.parametrize(
    ("kind", "bounds", "clusters", "method"),
    [
        ("binary", OPEN, None, "exact unconditional"),
        ("binary", OPEN, FIVES, "sign flips"),
        ("bounded", UNIT, None, "sign flips"),
        ("bounded", UNIT, FIVES, "sign flips"),
        ("bounded", (0.0, math.inf), None, "sign flips"),
        ("unbounded", UNIT, None, "sign flips"),
    ],
)
def test_the_method_follows_the_declaration(kind, bounds, clusters, method):
    assert compare_arms(RIGHT, WRONG, kind=kind, bounds=bounds, clusters=clusters).method == method


def test_binary_pairs_are_compared_by_the_exact_unconditional_test_with_the_conditional_p_beside_it():
    candidate, baseline = [1] * 12 + [0] * 4 + [1] * 14, [0] * 12 + [1] * 4 + [1] * 14

    result = compare_arms(candidate, baseline, kind="binary", bounds=UNIT)

    exact = paired_exact_test(12, 4, 30)
    assert (result.interval, result.p_value) == (exact.interval, exact.p_value)
    assert result.p_exact == mcnemar_exact(12, 4)
    assert result.estimate == pytest.approx(8 / 30)
    assert result.deviation == pytest.approx(np.std(np.subtract(candidate, baseline), ddof=1))


def test_scores_are_compared_by_sign_flips_and_by_the_bounds_of_their_mean():
    result = compare_arms(SCORES, OTHERS, kind="bounded", bounds=UNIT)
    low, high = (
        gaffke_bound(SCORES - OTHERS, end=end, alpha=0.025, side=side)
        for end, side in ((-1.0, "lower"), (1.0, "upper"))
    )

    assert (result.interval.low, result.interval.high) == pytest.approx((low, high))
    assert result.interval.method == "gaffke"
    assert result.p_value == result.alikeness.p_value == flip_signs(SCORES - OTHERS).p_value
    assert result.p_exact is None
    assert result.clusters is None


def test_scores_without_ends_are_tested_and_have_an_approximate_interval():
    result = compare_arms(SCORES, OTHERS, kind="unbounded", bounds=OPEN)

    assert result.interval == paired_t(SCORES - OTHERS).interval
    assert (result.p_value, result.proof_p) == (flip_signs(SCORES - OTHERS).p_value, None)
    assert "the interval is approximate" in result.note


def test_a_binary_metric_averaged_over_repeats_is_treated_as_a_score():
    candidate = np.where(np.arange(30) == 0, 0.5, RIGHT)

    result = compare_arms(candidate, RIGHT, kind="binary", bounds=OPEN)
    estimated = estimate(candidate, kind="binary", bounds=OPEN)

    assert (result.method, estimated.method) == ("sign flips", "t")
    assert estimated.interval == mean_interval(candidate, bounds=UNIT) or estimated.interval.high == 1.0


def test_a_one_sided_range_means_unbounded():
    latencies = RNG.exponential(size=40)

    low, high = (
        mean_bound(latencies, kind="bounded", bounds=(0.0, math.inf), side=side) for side in ("lower", "upper")
    )
    assert (low.value, low.method) == (gaffke_bound(latencies, end=0.0, alpha=0.05, side="lower"), "gaffke")
    assert (high.value, "declare bounds" in high.note) == (None, True)
    assert estimate(latencies, kind="bounded", bounds=(0.0, math.inf)).interval == mean_interval(latencies)


def test_bounds_by_kind():
    rights = [1] * 28 + [0] * 2

    assert mean_bound(rights, kind="binary", bounds=UNIT).value == clopper_pearson_bound(
        28, 30, alpha=0.05, side="lower"
    )
    by_size = korn_graubard_bound(rights, FIVES, alpha=0.05, side="lower")
    by_weight = gaffke_bound(rights, end=0.0, clusters=FIVES, alpha=0.05, side="lower")
    assert mean_bound(rights, kind="binary", bounds=UNIT, clusters=FIVES).value == min(by_size, by_weight)
    assert mean_bound(SCORES, kind="bounded", bounds=UNIT, side="upper").value == gaffke_bound(
        SCORES, end=1.0, alpha=0.05, side="upper"
    )
    assert mean_bound(SCORES, kind="bounded", bounds=UNIT, clusters=FIVES).value == gaffke_bound(
        SCORES, end=0.0, clusters=FIVES, alpha=0.05, side="lower"
    )


def test_estimates_by_kind():
    assert estimate(RIGHT, kind="binary", bounds=UNIT).interval == wilson_interval(30, 30)
    assert estimate(RIGHT, kind="binary", bounds=UNIT, clusters=FIVES).method == "wider of korn-graubard and gaffke"
    assert estimate(SCORES, kind="bounded", bounds=UNIT, clusters=FIVES).clusters == 6


def test_the_interval_of_a_grouped_rate_is_that_of_its_bounds():
    rights = [1] * 20 + [0] * 10
    interval = estimate(rights, kind="binary", clusters=FIVES, alpha=0.1).interval

    low, high = (
        mean_bound(rights, kind="binary", clusters=FIVES, alpha=0.05, side=side).value for side in ("lower", "upper")
    )
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_margin_bounds_of_pairs():
    binary = difference_bounds([1] * 4 + [0] * 26, [0] * 30, kind="binary", bounds=UNIT, alpha=0.05)
    graded = difference_bounds(SCORES, OTHERS, kind="bounded", bounds=UNIT, alpha=0.05)
    low, high = (paired_exact_bound(4, 0, 30, alpha=0.05, side=side) for side in ("lower", "upper"))

    assert (binary.low, binary.high, binary.method) == (low, high, "exact unconditional")
    assert graded.low == gaffke_bound(SCORES - OTHERS, end=-1.0, alpha=0.05, side="lower")


def test_a_difference_of_values_without_ends_has_no_bounds():
    for paired, clusters in itertools.product((True, False), (None, FIVES)):
        sides = difference_bounds(10 * SCORES, OTHERS, paired=paired, kind="unbounded", clusters=clusters)

        assert (sides.low, sides.high, sides.method) == (None, None, "none")
        assert "declare bounds" in sides.note


@pytest.mark.parametrize(("groups", "noted"), [(5, True), (15, True), (30, False)])
def test_below_twenty_clusters_an_interval_that_is_corrected_for_them_has_a_note(groups, noted):
    """A bound of the mean holds for any number of clusters; CR2 depends on its correction."""
    facts = {"bounds": UNIT, "clusters": np.arange(30) % groups}
    difference = compare_arms(SCORES, OTHERS, kind="bounded", **facts)
    ratio = compare_arms(SCORES, OTHERS, kind="bounded", estimand="ratio", **facts)

    assert difference.clusters == ratio.clusters == groups
    assert difference.interval is not None
    assert difference.note == ""
    assert ratio.interval.method == "cr2 of logarithms"
    assert ratio.note.startswith(f"only {groups} clusters") == noted


def test_the_deviation_of_clustered_pairs_carries_the_design_effect():
    result = compare_arms(SCORES, OTHERS, kind="bounded", bounds=UNIT, clusters=FIVES)

    assert result.deviation == pytest.approx(math.sqrt(30) * clustered_mean(SCORES - OTHERS, FIVES).se)


def test_equal_arms_are_not_different_however_their_scores_were_added_up():
    candidate, baseline = np.full(10, 0.1 + 0.2), np.full(10, 0.3)

    result = compare_arms(candidate, baseline, kind="bounded", bounds=UNIT)

    assert (result.estimate, result.p_value, result.proof_p) == (0.0, 1.0, 1.0)
    # n zeros and an end of 1 are weighted at random: the weight of the end is above x with probability (1 - x)^n.
    assert 0 <= result.interval.high - (1 - 0.025 ** (1 / 10)) < 0.002
    assert result.interval.low == -result.interval.high


@pytest.mark.parametrize("n", [2, 4, 5, 6, 20])
@pytest.mark.parametrize("step", [0.01, 0.125, 0.5, 1.0])
@pytest.mark.parametrize("clustered", [False, True])
def test_equal_differences_are_the_strongest_evidence_and_prove_what_their_number_allows(n, step, clustered):
    candidate, baseline = np.full(n, step), np.zeros(n)
    clusters = np.arange(n) if clustered else None
    result = compare_arms(candidate, baseline, kind="bounded", bounds=UNIT, clusters=clusters)

    # Only all signs of one kind are as extreme; of 20 differences no random flips are.
    assert result.p_value == (2.0 ** (1 - n) if n < 20 else 1e-4)
    if clustered and n < 5:
        assert result.interval is None
        return
    assert result.proof_p >= 2.0 ** (1 - n)
    assert (result.interval.low > 0) == (result.proof_p < 0.05)
