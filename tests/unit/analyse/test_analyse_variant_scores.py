"""Views of a metric on variants: drops, broken samples and the worst over several, with what is lost and does not apply."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.analyse.scores import Scores, Units
from pytest_crucible.analyse.statistics import SampleAttributes, compare_values
from pytest_crucible.analyse.targets import bound_drop, drop_difference, estimate_drop
from pytest_crucible.analyse.variant_scores import broken_scores, combine, drop_scores
from pytest_crucible.records import Contrast, MetricFacts
from pytest_crucible.records.measures import term_facts, view_problem

BINARY = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
LOWER = MetricFacts(name="bad", kind="bounded", direction="lower", low=0.0, high=5.0)
NAN = np.nan


def scores(values, lost=(), inapplicable=(), facts=BINARY):
    values = np.array(values, dtype=float)
    flags = {name: np.zeros(len(values), dtype=bool) for name in ("lost", "inapplicable")}
    for name, places in (("lost", lost), ("inapplicable", inapplicable)):
        flags[name][list(places)] = True
    low, high = (np.where(flags["lost"], end, values) for end in (facts.low, facts.high))
    return Scores(values, low, high, **flags)


def test_a_drop_is_positive_where_the_twin_is_worse():
    up = drop_scores(BINARY, scores([1, 1, 0]), scores([0, 1, 1]))
    down = drop_scores(LOWER, scores([1, 4], facts=LOWER), scores([3, 1], facts=LOWER))

    assert up.values.tolist() == [1, 0, -1]
    assert down.values.tolist() == [2, -3]
    assert (term_facts("x", "drop", LOWER).low, term_facts("x", "drop", LOWER).high) == (-5, 5)
    assert term_facts("x", "drop", BINARY).direction == term_facts("x", "drop", LOWER).direction == "lower"


def test_what_is_lost_may_have_any_value_and_what_does_not_apply_has_none():
    drop = drop_scores(BINARY, scores([1, NAN, 1, 1], lost=[1]), scores([NAN, 0, NAN, 1], lost=[0], inapplicable=[2]))

    assert drop.lost.tolist() == [True, True, False, False]
    assert drop.inapplicable.tolist() == [False, False, True, False]
    assert drop.low[:2].tolist() == [0, 0]
    assert drop.high[:2].tolist() == [1, 1]
    assert np.isnan(drop.values[:3]).all()


def test_only_samples_that_are_right_as_they_are_can_break():
    broken = broken_scores(BINARY, scores([1, 0, 1, NAN], lost=[3]), scores([0, 0, 1, 1]))

    assert broken.values[[0, 2]].tolist() == [1, 0]
    assert broken.inapplicable.tolist() == [False, True, False, False]
    # The sample itself may have been right.
    assert (broken.lost[3], broken.low[3], broken.high[3]) == (True, 0, 1)


def test_several_draws_are_their_mean_or_their_worst():
    draws = [
        scores([1, 0, NAN], inapplicable=[2]),
        scores([0, 0, 1]),
        scores([1, NAN, NAN], lost=[1], inapplicable=[2]),
    ]

    mean = combine(BINARY, draws, is_worst=False)
    worst = combine(BINARY, draws, is_worst=True)

    assert mean.values == pytest.approx([2 / 3, 0, 1])
    assert (mean.low[1], mean.high[1]) == pytest.approx((0, 1 / 3))
    assert worst.values.tolist() == [0, 0, 1]
    assert mean.lost.tolist() == worst.lost.tolist() == [False, True, False]
    assert combine(LOWER, [scores([1, 2]), scores([3, 1])], is_worst=True).values.tolist() == [3, 2]
    # Every reply is a unit, so that rates count replies.
    assert mean.units is not None
    assert mean.units.values.shape == (3, 1, 1, 1, 3)


def test_drops_of_repeats_are_those_of_their_means():
    def with_units(values):
        values = np.array(values, dtype=float)
        shaped = values.reshape(len(values), 1, 1, 1, -1)
        means = values.mean(axis=1)
        none = np.zeros(len(values), dtype=bool)
        return Scores(
            means, means, means, none, none, units=Units(shaped, shaped, shaped, np.zeros_like(shaped, dtype=bool))
        )

    drop = drop_scores(BINARY, with_units([[1, 0], [1, 1]]), with_units([[0, 0, 0], [1, 0, 0]]))

    assert drop.values == pytest.approx([0.5, 2 / 3])
    assert drop.units.values.ravel() == pytest.approx([0.5, 2 / 3])


def test_a_drop_is_judged_as_two_arms_are():
    clean, attacked = [1] * 40 + [0] * 10, [1] * 30 + [0] * 18 + [1] * 2
    drop = drop_scores(BINARY, scores(clean), scores(attacked))
    everything = np.ones(50, dtype=bool)
    difference = drop_difference(drop.pair, SampleAttributes(), everything, "observed", 0.05)

    measured = estimate_drop(difference)
    columns = [[np.array(values, dtype=float)] for values in (clean, attacked)]
    arms = compare_values(Contrast(metric="ok", baseline="", margin=0.1), [BINARY], *columns, alpha=0.05)
    assert measured.value == pytest.approx(8 / 50)
    assert (measured.interval.low, measured.interval.high) == pytest.approx((arms.interval.low, arms.interval.high))
    bounds, method = bound_drop(difference)
    assert (bounds.lower, bounds.upper, method) == (
        pytest.approx(arms.lower),
        pytest.approx(arms.upper),
        arms.bounds_method,
    )


def test_the_ends_of_a_drop_with_a_lost_twin_are_the_two_values_it_could_have():
    drop = drop_scores(BINARY, scores([1] * 10), scores([1] * 9 + [NAN], lost=[9]))
    everything = np.ones(10, dtype=bool)

    low, high = (drop_difference(drop.pair, SampleAttributes(), everything, end, 0.05).value for end in ("low", "high"))
    assert (-low, -high) == pytest.approx((0, 0.1))


@pytest.mark.parametrize(("view", "problem"), [("broken", True), ("broken_any", True), ("drop", False), ("", False)])
def test_only_yes_and_no_can_break(view, problem):
    assert bool(view_problem(view, LOWER)) == problem
    assert not view_problem(view, BINARY)
    assert not view_problem(view, MetricFacts(name="later"))
