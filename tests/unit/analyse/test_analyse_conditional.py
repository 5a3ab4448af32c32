"""Metrics that apply to some replies only: what is compared, what a wrong declaration is, and what cannot be compared."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from answer_builders import LOST, SKIP, score_rows

from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.slices import keep_slice
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.analyse.targets import evaluate_target
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.stats.slices.slicing import Slicing

FLAG = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)
SHARE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
PLAIN = SampleAttributes()


def run_comparison(ours, theirs, facts=FLAG, text="m", attributes=PLAIN, **options):
    arms = score_rows(facts, ours), score_rows(facts, theirs)
    return compare(parse_contrast(text, **options), "v2", arms, attributes, alpha=0.05, family_size=1)


def drawn(n=200, seed=0):
    """Right if selected: v1 selects the right half, v2 nearly everybody."""
    rng = np.random.default_rng(seed)
    right = np.arange(n) % 2 == 1
    strict = rng.random(n) < np.where(right, 0.9, 0.1)
    lax = strict | (rng.random(n) < 0.9)
    return [[float(value) if flag else None for value, flag in zip(right, arm, strict=True)] for arm in (lax, strict)]


def mean(values) -> float:
    return float(np.mean([value for value in values if value is not None]))


@pytest.mark.parametrize("applies", ["reply", None])
def test_the_difference_is_that_of_the_means_of_each_arms_own_replies(applies):
    ours, theirs = drawn()

    result = run_comparison(ours, theirs, replace(FLAG, applies=applies), margin=0.02)

    assert result.difference == pytest.approx(mean(ours) - mean(theirs))
    assert result.pairs == sum(a is not None or b is not None for a, b in zip(ours, theirs, strict=True))
    assert result.evidence.observed.upper < -0.2
    assert result.p_value == 1e-4


def test_a_declaration_that_the_replies_contradict_is_an_error_that_says_what_to_declare():
    ours, theirs = drawn()
    differing = sum((a is None) != (b is None) for a, b in zip(ours, theirs, strict=True))

    result = run_comparison(ours, theirs, replace(FLAG, applies="sample"))

    assert (result.difference, result.p_value) == (None, None)
    assert result.suite_error == (
        f"'m' is declared to apply to samples, and applied to {differing} samples in one arm only: "
        'declare @metric(applies="reply"), which measures each arm on the replies that it applies to'
    )


def test_a_lost_reply_contradicts_no_declaration():
    ours, theirs = [1.0, LOST, None, 0.0] * 5, [0.0, 1.0, LOST, 1.0] * 5

    result = run_comparison(ours, theirs, replace(FLAG, applies="sample"))

    assert (result.suite_error, result.pairs, result.lost) == ("", 10, 5)


@pytest.mark.parametrize(
    ("applies", "method"), [("sample", "exact unconditional"), (None, "exact unconditional"), ("reply", "swapped arms")]
)
def test_a_metric_that_applies_to_the_same_samples_is_compared_in_pairs_unless_declared_for_replies(applies, method):
    ours, theirs = [1.0, None, 0.0, 1.0] * 10, [0.0, None, 0.0, 1.0] * 10

    result = run_comparison(ours, theirs, replace(FLAG, applies=applies))

    assert (result.method, result.pairs, result.difference) == (method, 30, pytest.approx(1 / 3))


def test_a_repeat_counts_by_the_share_of_its_samples_replies():
    """Two repeats: the first sample's metric applies to one of them, and a lost one is no reply."""
    ours = [[1.0, None], [0.0, 0.0], [None, None], [0.5, LOST]] * 6
    theirs = [[0.2, 0.2], [0.4, None], [0.3, 0.3], [0.1, 0.1]] * 6

    result = run_comparison(ours, theirs, SHARE)

    first = (0.5 * 1.0 + 0.0 + 0.5) / (0.5 + 1 + 1)
    second = (0.2 + 0.5 * 0.4 + 0.3 + 0.1) / 3.5
    assert result.difference == pytest.approx(first - second)
    assert (result.pairs, result.lost) == (24, 6)
    assert target(SHARE, ours).estimate.value == pytest.approx(first)


def test_a_rate_counts_the_replies_that_the_metric_applies_to():
    ours = [[0.9, None, 0.1], [0.9, 0.9, None], [None, None, None]] * 6
    theirs = [[0.9, 0.1, 0.1], [0.1, 0.9, 0.9], [0.9, 0.9, 0.9]] * 6

    result = run_comparison(ours, theirs, SHARE, text="rate(m >= 0.5)")

    assert result.difference == pytest.approx(3 / 4 - 6 / 9)


def test_lost_replies_are_as_bad_and_as_good_as_they_can_be():
    ours, theirs = [1.0, None, 0.0, LOST] * 5, [1.0, 0.0, None, LOST] * 5

    result = run_comparison(ours, theirs, replace(FLAG, applies="reply"))

    assert result.difference == 0.0
    assert result.evidence.worst.value == pytest.approx(5 / 15 - 10 / 15)
    assert result.evidence.best.value == pytest.approx(10 / 15 - 5 / 15)


def test_groups_are_swapped_whole():
    ours, theirs = drawn(120)
    groups = np.repeat(np.arange(12), 10)

    result = run_comparison(ours, theirs, attributes=SampleAttributes(groups))

    assert (result.clusters, result.arrangements, result.is_exact) == (12, 2**12, True)


def test_a_skipped_sample_is_in_neither_arm():
    ours, theirs = [1.0, None, 0.0, 1.0, 1.0] * 4, [1.0, 0.0, None, SKIP, 0.0] * 4

    result = run_comparison(ours, theirs, replace(FLAG, applies="reply"))

    assert (result.pairs, result.lost) == (16, 0)
    assert result.difference == pytest.approx(2 / 3 - 1 / 3)


def test_amounts_are_compared_by_geometric_means_of_each_arms_own_replies():
    ours, theirs = [2.0, None, 8.0] * 10, [1.0, 4.0, None] * 10

    result = run_comparison(ours, theirs, SECONDS)

    assert result.ratio.value == pytest.approx(math.sqrt(16) / math.sqrt(4))
    assert (result.interval, result.arrangements) == (None, 10_000)


def test_a_percentile_needs_the_same_samples_in_both_arms():
    ours, theirs = [2.0, None, 8.0] * 10, [1.0, 4.0, 3.0] * 10

    result = run_comparison(ours, theirs, SECONDS, text="p95(m)")

    assert (result.difference, result.suite_error) == (None, "")
    assert result.note == (
        "'m' applied to 10 samples in one arm only, and a percentile is compared on samples of both arms: "
        "set a target for each arm, or score those replies"
    )


def test_an_arm_without_a_value_has_nothing_to_compare():
    some, none = [1.0, 0.0] * 10, [None, None] * 10

    candidate, baseline = run_comparison(none, some), run_comparison(some, none)
    assert (candidate.pairs, candidate.note) == (0, "m applies to no reply of the candidate")
    assert (baseline.difference, baseline.note) == (None, "in one of the arms it applies to no reply")


def test_random_factors_and_looks_leave_the_difference_without_a_verdict():
    ours, theirs = drawn()
    looked = run_comparison(ours, theirs, attributes=SampleAttributes(look_alpha=0.05))
    crossed = run_comparison(ours, theirs, attributes=SampleAttributes(random_factors=("rounds",)))

    assert looked.p_value is crossed.p_value is None
    assert "--crucible-stop" in looked.note
    assert "counts rounds" in crossed.note


def target(facts, rows):
    return evaluate_target(parse_target("m >= 0.1"), score_rows(facts, rows), "v2", PLAIN, alpha=0.05)


@pytest.mark.parametrize(("applies", "mean"), [(None, 0.5), ("reply", None), ("sample", None)])
def test_a_metric_that_declares_where_it_applies_has_no_unconditional_mean(applies, mean):
    assert target(replace(FLAG, applies=applies), [1.0, None, 1.0, 0.0]).estimate.unconditional == mean


def test_a_target_on_a_wrongly_declared_metric_is_an_error_too():
    result = target(replace(FLAG, applies="sample"), [[1.0, None], [1.0, 1.0], [0.0, 0.0]] * 3)

    assert "applied to some replies only of 3 samples" in result.suite_error


# -- one repeat is enough -------------------------------------------------------------------------------------------


def gap(ours, theirs):
    by = By((Field("age"),))
    slicing = Slicing(codes=np.arange(len(ours)) % 2, names=("old", "young"))
    return run_comparison(ours, theirs, text="gap(m by age)", attributes=SampleAttributes(slicings={by: slicing}))


def test_a_gap_counts_a_sample_of_which_one_repeat_is_lost():
    rng = np.random.default_rng(3)
    whole = [[[float(value)] for value in arm] for arm in rng.random((2, 80)) < 0.7]
    halves = [[[*row, LOST] for row in arm] for arm in whole]

    difference, two = gap(*whole), gap(*halves)
    assert (two.pairs, two.lost) == (80, 80)
    assert two.difference == pytest.approx(difference.difference)


def test_a_gap_leaves_out_samples_that_are_lost_whole():
    ours = [[1.0, 0.0], [LOST, LOST]] * 4 + [[0.0, LOST], [1.0, 1.0]] * 8
    result = gap(ours, [[1.0, 1.0]] * 24)

    assert (result.pairs, result.lost) == (20, 12)


def test_the_samples_of_a_slice_keep_their_shares():
    inside = np.array([True, False, True])
    (metric,) = score_rows(SHARE, [[1.0, None], [0.5, None], [0.0, 0.0]])

    inside_slice = keep_slice(metric.scores, inside)
    assert inside_slice.shares.observed.tolist() == [0.5, 0.0, 1.0]
