"""pass^k, pass@k and means by sample: one value a sample from its repeats, some of them lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from answer_builders import LOST, analysis_inputs, reply_rows
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import MetricFacts

PASSES = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)
SCORE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
REPLIES = st.lists(st.lists(st.sampled_from([True, False, LOST]), min_size=5, max_size=5), min_size=2, max_size=6)


def analysis(targets, *arms, facts=PASSES, contrasts=(), **plan):
    inputs = analysis_inputs(
        *(reply_rows(rows) for rows in arms),
        metrics=[facts],
        targets=targets,
        contrasts=contrasts,
        n=len(arms[0]),
        repeats=len(arms[0][0]),
        **plan,
    )
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


def target(text, rows, facts=PASSES, **plan):
    return analysis([text], rows, facts=facts, **plan).targets[0]


def share_of_draws(rows, k, rule):
    """The mean over samples of the share of all draws of k replies that fulfil the rule, by enumeration."""
    return np.mean([np.mean([rule(draw) for draw in combinations(row, k)]) for row in rows if len(row) >= k])


def scored_replies(row):
    return [value for value in row if value != LOST]


def fill_lost(rows, value):
    return [[value if reply == LOST else reply for reply in row] for row in rows]


@given(rows=REPLIES, k=st.integers(1, 5))
def test_draws_of_a_sample_are_all_its_subsets_of_k_replies(rows, k):
    for name, rule in (("pass^", all), ("pass@", any)):
        result = target(f"{name}{k}(m) >= 0.5", rows)
        values = [scored_replies(row) for row in rows if len(scored_replies(row)) >= k]

        assert (result.estimate.n, result.estimate.lost) == (len(values), sum(LOST in row for row in rows))
        assert result.estimate.value == (pytest.approx(share_of_draws(values, k, rule)) if values else None)
        if result.estimate.lost:
            worst, best = (share_of_draws(fill_lost(rows, value), k, rule) for value in (False, True))
            assert (result.evidence.worst.value, result.evidence.best.value) == pytest.approx((worst, best))


def test_a_sample_with_fewer_than_k_known_replies_is_lost_and_not_failed():
    result = target("pass^3(m) >= 0.5", [[True] * 3] * 9 + [[True, True, LOST]])

    assert (result.estimate.value, result.estimate.n, result.estimate.lost) == (1.0, 9, 1)
    assert (result.evidence.worst.value, result.evidence.best.value) == (0.9, 1.0)


def test_k_replies_to_each_of_k_draws_are_yes_or_no():
    rows = [[True] * 3] * 40 + [[True, True, False]] * 10

    result = target("pass^3(m) >= 0.5", rows)

    assert (result.estimate.method, result.evidence.method) == ("wilson", "clopper-pearson")
    assert result.estimate.interval == target("m >= 0.5", [[all(row)] for row in rows]).estimate.interval


def test_a_condition_says_which_draws_of_a_score_pass():
    result = target("pass^2(m >= 0.7) >= 0.5", [[0.9, 0.8, 0.1], [0.7, 0.7, 0.9]], facts=SCORE)

    assert result.estimate.value == pytest.approx((1 / 3 + 1) / 2)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (MetricFacts(name="m"), "a draw passes or not, and 'm' is unbounded: write pass^2(m >= 0.75), for example"),
        (SCORE, "a draw passes or not, and 'm' is bounded: write pass^2(m >= 0.75), for example"),
    ],
)
def test_a_score_that_is_not_yes_or_no_is_an_error_of_the_suite(facts, problem):
    rows = [[0.2, 0.5]] * 5

    assert target("pass^2(m) >= 0.5", rows, facts=facts).suite_error == problem
    compared = analysis([], rows, rows, facts=facts, contrasts=[pairs("pass^2(m)")]).comparisons[0]
    assert compared.suite_error == problem


def pairs(text, **options):
    return replace(parse_contrast(text, **options), baseline="v1")


def test_chances_are_compared_as_scores_of_samples():
    rng = np.random.default_rng(3)
    ours, theirs = ((rng.random((30, 5)) < rng.beta(3, 1, (30, 1))).tolist() for _ in range(2))

    compared = analysis([], ours, theirs, contrasts=[pairs("pass^3(m)", margin=0.1)]).comparisons[0]
    chances = [[[share_of_draws([row], 3, all)] for row in rows] for rows in (ours, theirs)]
    plain = analysis([], *chances, facts=SCORE, contrasts=[pairs("m", margin=0.1)]).comparisons[0]

    assert compared.difference == pytest.approx(plain.difference)
    assert compared.p_value == plain.p_value
    assert (compared.interval.low, compared.interval.high) == pytest.approx((plain.interval.low, plain.interval.high))


def test_a_share_of_samples_by_the_mean_of_their_replies():
    rows = [[True] * 8 + [False] * 2] * 6 + [[True] * 7 + [False] * 3] * 2 + [[True] * 7 + [False] * 2 + [LOST]] * 2

    result = target("rate(mean_by_sample(m) >= 0.8) >= 0.5", rows)

    # 7 of the 9 known replies are below .8; with the lost one 8 of 10 are not.
    assert (result.estimate.value, result.estimate.n, result.estimate.lost) == (0.6, 10, 2)
    assert (result.evidence.worst.value, result.evidence.best.value) == (0.6, 0.8)
    assert (result.estimate.replies, result.evidence.method) == (None, "clopper-pearson")


def test_draws_are_within_a_round_and_intervals_count_the_rounds():
    rng = np.random.default_rng(5)
    rows = (rng.random((40, 6)) < 0.8).tolist()

    result = target("pass^2(m) >= 0.5", rows, rounds=3)

    draws = [[[row[first], row[first + 1]] for first in (0, 2, 4)] for row in rows]
    assert result.estimate.value == pytest.approx(np.mean(np.all(draws, axis=2)))
    assert result.estimate.method == target("m >= 0.5", rows, rounds=3).estimate.method


def test_text_of_targets_is_kept():
    for text in ("pass^3(m) >= 0.8", "pass@10(m >= 0.5) >= 0.8", "rate(mean_by_sample(m) >= 0.8) >= 0.95"):
        parsed = parse_target(text)

        assert f"{parsed.expression} >= {parsed.value:g}" == text.replace(">= 0.80", ">= 0.8")
