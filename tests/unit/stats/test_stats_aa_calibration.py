"""The A/A self-test: it deals fairly, counts what it says, and sees a method that errs too often."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats import compare, false_alarm_rate, wilson_interval
from pytest_crucible.stats.checks import FalseAlarms

RNG = np.random.default_rng(31)
SCORES = RNG.random((40, 2)).round(2)
BITS = (RNG.random((60, 4)) < RNG.random((60, 1))).astype(float)


def outcome(alarms, replicates=1000, unanswered=0):
    interval = wilson_interval(alarms, replicates, level=0.99)
    facts = {"alpha": 0.05, "samples": 9, "clusters": None, "method": "t", "seed": 0}
    return FalseAlarms(alarms=alarms, replicates=replicates, unanswered=unanswered, interval=interval, **facts)


@pytest.mark.parametrize(
    ("values", "facts", "method"),
    [
        (BITS[:, :2], {}, "exact unconditional"),
        (BITS, {"kind": "bounded", "bounds": (0, 1)}, "sign flips"),
        (SCORES, {"bounds": (0, 1)}, "sign flips"),
        (RNG.lognormal(size=(30, 3)), {}, "sign flips"),
        (SCORES, {"clusters": np.arange(40) // 4}, "sign flips"),
    ],
    ids=["bits", "repeated bits", "scores", "latencies", "clusters"],
)
def test_the_methods_of_the_table_hold_their_level(values, facts, method):
    result = false_alarm_rate(values, **facts, replicates=600)

    assert result.holds
    assert result.rate < 0.09
    assert (result.method, result.replicates, result.unanswered) == (method, 600, 0)
    assert result.interval == wilson_interval(result.alarms, 600, level=0.99)


def test_ignored_clusters_are_seen():
    """Ten samples of each passage share one answer: taken for independent, they cry wolf."""
    passages = np.repeat(RNG.normal(size=(12, 2)), 10, axis=0)
    labels = np.repeat(np.arange(12), 10)
    alone = false_alarm_rate(passages, clusters=labels, replicates=400)

    ignored = [
        compare(*_dealt(passages, labels, np.random.default_rng(k)), kind="unbounded").significant for k in range(400)
    ]

    assert alone.holds
    assert not outcome(sum(ignored), 400).holds


def _dealt(values, labels, rng):
    turned = rng.integers(0, 2, labels.max() + 1)[labels].astype(bool)
    return np.where(turned, values[:, 1], values[:, 0]), np.where(turned, values[:, 0], values[:, 1])


@given(st.integers(0, 2**32), st.sampled_from([0.01, 0.1]))
@settings(max_examples=choose_examples(10))
def test_a_seed_gives_one_answer(seed, alpha):
    first, second = (false_alarm_rate(SCORES, alpha=alpha, replicates=20, seed=seed) for _ in range(2))

    assert first == second
    assert (first.seed, first.alpha, first.samples) == (seed, alpha, 40)
    assert pickle.loads(pickle.dumps(first)) == first


def test_repeats_that_agree_raise_no_alarm():
    values = np.repeat(RNG.random((20, 1)), 4, axis=1)

    for facts in ({}, {"bounds": (0, 1)}, {"clusters": np.arange(20) % 6}):
        assert false_alarm_rate(values, **facts, replicates=50).alarms == 0


def test_with_an_odd_number_of_repeats_one_sits_out():
    """Two of three repeats are dealt: values are those of single repeats, not of averages."""
    result = false_alarm_rate((RNG.random((30, 3)) < 0.5).astype(float), replicates=50)

    assert result.method == "exact unconditional"


def test_a_method_that_refuses_shows_nothing():
    result = false_alarm_rate(SCORES, clusters=np.arange(40) % 4, replicates=30)

    assert (result.alarms, result.unanswered, result.holds, result.clusters) == (0, 30, False, 4)


@pytest.mark.parametrize(("alarms", "holds"), [(0, True), (50, True), (70, True), (90, False), (1000, False)])
def test_it_holds_up_to_chance_and_a_tenth_of_alpha(alarms, holds):
    result = outcome(alarms)

    assert result.holds is holds
    assert result.rate == alarms / 1000


@pytest.mark.parametrize(
    ("values", "facts", "message"),
    [
        (SCORES[:, 0], {}, r"at least 2 samples x 2 repeats, not the shape \(40,\)"),
        (SCORES[:, :1], {}, r"not the shape \(40, 1\)"),
        (SCORES[:1], {}, r"not the shape \(1, 2\)"),
        (np.where(SCORES > 0.9, np.nan, SCORES), {}, r"\d of 80 values are NaN"),
        (SCORES, {"replicates": 0}, "replicates must be at least 1, not 0"),
        (SCORES, {"alpha": 1}, "alpha must lie between 0 and 1, not 1"),
        (SCORES, {"kind": "score"}, "kind must be one of 'auto'"),
        (SCORES, {"kind": "bounded"}, "needs its bounds"),
        (SCORES, {"bounds": (1, 0)}, "below the high bound"),
        (SCORES, {"bounds": (0, 0.5)}, "values lie outside the bounds"),
        (SCORES, {"clusters": ["a"]}, "40 values, 1 cluster labels"),
        (SCORES, {"seed": None}, "seed must be a whole number, not None"),
    ],
)
def test_wrong_input_is_refused(values, facts, message):
    with pytest.raises(ValueError, match=message):
        false_alarm_rate(values, **facts)
