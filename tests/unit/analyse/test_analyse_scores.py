"""Scores of samples, and of terms that name variants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from answer_builders import reply_rows
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.analyse.comparisons import compare_pair
from pytest_crucible.analyse.scores import Scores, Units, resolve, scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.analyse.targets import bound_drop, drop_difference, estimate_drop
from pytest_crucible.analyse.variant_scores import broken_scores, combine, drop_scores
from pytest_crucible.records import ArmOutcomes, Contrast, Lost, MetricFacts, ScoreColumns, Unit
from pytest_crucible.records.measures import term_facts, view_problem

INF = math.inf
FACTS = {
    "binary": MetricFacts(name="m", kind="binary", low=0.0, high=1.0),
    "bounded": MetricFacts(name="m", kind="bounded", low=-1.0, high=3.0),
    "bounded, lower": MetricFacts(name="m", kind="bounded", low=-1.0, high=3.0, direction="lower"),
    "unbounded": MetricFacts(name="m", kind="unbounded"),
    "unbounded, lower": MetricFacts(name="m", kind="unbounded", direction="lower"),
    "from zero": MetricFacts(name="m", kind="unbounded", low=0.0),
    "seconds": MetricFacts(name="m", kind="unbounded", low=0.0, direction="lower"),
}


@dataclass(frozen=True)
class Repeat:
    """The outcome of one repeat of one sample for one metric."""

    status: str
    """answered, failed, skipped, lost (the whole reply), never (not asked), broken (the scorer raised)"""
    score: float | str | None = None
    """A number, "n/a" for None with a reason, or None where nothing was said."""


def answers(units: list[list[Repeat]]) -> ArmOutcomes:
    replied = [
        (k, repeat, entry)
        for k, sample in enumerate(units)
        for repeat, entry in enumerate(sample)
        if entry.status not in ("lost", "never")
    ]
    scored = [(k, repeat, entry.score) for k, repeat, entry in replied if entry.score is not None]
    values = [None if score == "n/a" else score for _, _, score in scored]
    lost = [
        Lost(
            Unit(k, 0, 0, repeat),
            None if entry.status == "lost" else "m",
            "error" if entry.status == "lost" else "scorer",
        )
        for k, sample in enumerate(units)
        for repeat, entry in enumerate(sample)
        if entry.status in ("lost", "broken")
    ]
    column = ScoreColumns(
        positions=[k for k, _, _ in scored],
        repeats=[repeat for _, repeat, _ in scored],
        values=values,
        is_bool=[False] * len(scored),
    )
    return ArmOutcomes(
        positions=[k for k, _, _ in replied],
        repeats=[repeat for _, repeat, _ in replied],
        failures=["timeout" if entry.status == "failed" else None for _, _, entry in replied],
        skipped=[entry.status == "skipped" for _, _, entry in replied],
        scores={"m": column} if scored else {},
        lost=[*lost, Lost(Unit(0, 0, 0, 0), "another metric", "scorer")],
    )


def one_unit(unit: Repeat, facts: MetricFacts) -> float | str:
    """A number, "lost" or "n/a", by the rules as they are written."""
    if isinstance(unit.score, float):
        return unit.score
    if unit.score == "n/a":
        return "n/a"
    worst = facts.low if facts.direction == "higher" else facts.high
    if unit.status == "failed":
        return worst if math.isfinite(worst) else "lost"
    return "lost" if unit.status in ("lost", "never", "broken") else "n/a"


def one_sample(sample: list[Repeat], facts: MetricFacts) -> tuple[float, float, float, bool, bool]:
    """(value, low, high, lost, inapplicable)"""
    replies = [one_unit(unit, facts) for unit in sample]
    numbers = [one_unit for one_unit in replies if isinstance(one_unit, float)]
    lost = replies.count("lost")
    value = sum(numbers) / len(numbers) if numbers else math.nan
    if not numbers and not lost:
        return math.nan, math.nan, math.nan, False, True
    ends = [(sum(numbers) + sum([end] * lost)) / (len(numbers) + lost) for end in (facts.low, facts.high)]
    return value, *ends, lost > 0, False


def units_of(facts: MetricFacts) -> st.SearchStrategy[Repeat]:
    low, high = max(facts.low, -50.0), min(facts.high, 50.0)
    number = st.sampled_from([0.0, 1.0]) if facts.kind == "binary" else st.floats(low, high)
    values = st.one_of(number, st.just("n/a"))
    return st.one_of(
        st.builds(Repeat, st.just("answered"), values),
        st.builds(Repeat, st.sampled_from(["failed", "skipped"]), st.one_of(st.none(), values)),
        st.builds(Repeat, st.sampled_from(["answered", "lost", "never", "broken"])),
    )


@st.composite
def arms(draw):
    facts = FACTS[draw(st.sampled_from(sorted(FACTS)))]
    repeats = draw(st.integers(1, 4))
    sample = st.lists(units_of(facts), min_size=repeats, max_size=repeats)
    return facts, repeats, draw(st.lists(sample, min_size=1, max_size=8))


@given(arms())
def test_scores_are_those_of_each_sample_alone(arm):
    facts, repeats, units = arm
    got = scores(facts, answers(units), samples=len(units), repeats=repeats)

    values, low, high, lost, inapplicable = map(
        np.array, zip(*(one_sample(unit, facts) for unit in units), strict=True)
    )
    np.testing.assert_allclose(got.values, values)
    np.testing.assert_allclose(got.low, low)
    np.testing.assert_allclose(got.high, high)
    assert got.lost.tolist() == lost.tolist()
    assert got.inapplicable.tolist() == inapplicable.tolist()


def test_no_score_is_minus_zero():
    got = scores(FACTS["bounded"], answers([[Repeat("answered", -0.0)]]), samples=1, repeats=1)

    assert math.copysign(1, got.values[0]) == 1


@given(arms())
def test_a_value_lies_between_its_extremes_and_inside_the_bounds(arm):
    facts, repeats, units = arm
    got = scores(facts, answers(units), samples=len(units), repeats=repeats)

    slack, is_scored = 1e-9, got.seen
    assert (got.low[is_scored] <= got.values[is_scored] + slack).all()
    assert (got.values[is_scored] <= got.high[is_scored] + slack).all()
    kinds = ~got.inapplicable
    assert (got.low[kinds] >= facts.low - slack).all()
    assert (got.high[kinds] <= facts.high + slack).all()
    certain = is_scored & ~got.lost
    assert (got.low[certain] == got.values[certain]).all()
    assert (got.high[certain] == got.values[certain]).all()


@given(arms())
def test_every_sample_is_seen_or_lost_or_inapplicable(arm):
    facts, repeats, units = arm
    got = scores(facts, answers(units), samples=len(units), repeats=repeats)

    assert (got.seen | got.lost | got.inapplicable).all()
    assert not (got.inapplicable & (got.seen | got.lost)).any()


@pytest.mark.parametrize(("name", "worst"), [("binary", 0.0), ("bounded", -1.0), ("bounded, lower", 3.0)])
def test_a_failure_is_the_worst_value(name, worst):
    got = scores(FACTS[name], answers([[Repeat("failed")]]), samples=1, repeats=1)

    assert (got.values.tolist(), got.lost.tolist()) == ([worst], [False])


@pytest.mark.parametrize("name", ["unbounded", "unbounded, lower", "seconds"])
def test_a_failure_is_lost_where_no_worst_value_exists(name):
    got = scores(FACTS[name], answers([[Repeat("failed")]]), samples=1, repeats=1)

    assert (got.seen.tolist(), got.lost.tolist()) == ([False], [True])


def test_a_failure_keeps_its_score():
    units = [[Repeat("failed", 0.5)], [Repeat("failed", "n/a")]]
    got = scores(FACTS["bounded"], answers(units), samples=2, repeats=1)

    assert got.values[0] == 0.5
    assert got.inapplicable.tolist() == [False, True]


def test_a_sample_with_one_lost_repeat_is_seen_and_lost():
    units = [[Repeat("answered", 1.0), Repeat("answered", 0.0), Repeat("lost"), Repeat("answered", "n/a")]]
    got = scores(FACTS["binary"], answers(units), samples=1, repeats=4)

    assert (got.values[0], got.low[0], got.high[0]) == (0.5, 1 / 3, 2 / 3)
    assert (got.seen[0], got.lost[0]) == (True, True)


# -- kinds --------------------------------------------------------------------------------------------------------


def outcomes_of(*values: bool | float | None, label: bool = False) -> ArmOutcomes:
    outcomes = reply_rows([[value] for value in values])
    return replace(outcomes, scores=outcomes.scores if values else {}, labels=frozenset({"m"} if label else ()))


@pytest.mark.parametrize(
    ("arms_seen", "kinds", "kind"),
    [
        ([outcomes_of(True, False), outcomes_of(True)], {}, "binary"),
        ([outcomes_of(True, False), outcomes_of(1.0, 0.0)], {}, "unbounded"),
        ([outcomes_of(1.0, 0.0), outcomes_of(True)], {}, "unbounded"),
        ([outcomes_of(True), outcomes_of(True, 0.5)], {}, "unbounded"),
        ([outcomes_of(None, True), outcomes_of(None)], {}, "binary"),
        ([outcomes_of(None), outcomes_of()], {}, "binary"),
        ([], {}, "binary"),
        ([outcomes_of(True)], {"m": "unbounded"}, "unbounded"),
        ([outcomes_of(1.0)], {"m": "binary"}, "unbounded"),
        ([outcomes_of(True)], {"m": "bounded"}, "bounded"),
        ([outcomes_of(True)], {"m": "nonsense"}, "binary"),
        ([outcomes_of(True)], {"another": "unbounded"}, "binary"),
        ([outcomes_of(True), outcomes_of(label=True)], {}, "text"),
        ([outcomes_of(True)], {"m": "text"}, "text"),
    ],
)
def test_the_kind_follows_all_arms_and_earlier_runs(arms_seen, kinds, kind):
    assert resolve(MetricFacts(name="m"), arms_seen, kinds).kind == kind


@pytest.mark.parametrize("kind", ["binary", "bounded", "unbounded", "text"])
def test_a_declared_kind_stays(kind):
    facts = MetricFacts(name="m", kind=kind)

    assert resolve(facts, [outcomes_of(0.5), outcomes_of(label=True)], {"m": "text"}) == facts


def test_a_binary_metric_lies_between_0_and_1():
    facts = resolve(MetricFacts(name="m"), [outcomes_of(True)], {})

    assert (facts.low, facts.high) == (0.0, 1.0)


def test_a_declared_bound_and_direction_stay():
    facts = resolve(MetricFacts(name="m", low=0.0, direction="lower"), [outcomes_of(2.0)], {})

    assert (facts.kind, facts.low, facts.high, facts.direction) == ("unbounded", 0.0, INF, "lower")


BINARY = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
LOWER = MetricFacts(name="bad", kind="bounded", direction="lower", low=0.0, high=5.0)
NAN = np.nan


def scores_of(values, lost=(), inapplicable=(), facts=BINARY):
    values = np.array(values, dtype=float)
    flags = {name: np.zeros(len(values), dtype=bool) for name in ("lost", "inapplicable")}
    for name, places in (("lost", lost), ("inapplicable", inapplicable)):
        flags[name][list(places)] = True
    low, high = (np.where(flags["lost"], end, values) for end in (facts.low, facts.high))
    return Scores(values, low, high, **flags)


def test_a_drop_is_positive_where_the_twin_is_worse():
    up = drop_scores(BINARY, scores_of([1, 1, 0]), scores_of([0, 1, 1]))
    down = drop_scores(LOWER, scores_of([1, 4], facts=LOWER), scores_of([3, 1], facts=LOWER))

    assert up.values.tolist() == [1, 0, -1]
    assert down.values.tolist() == [2, -3]
    assert (term_facts("x", "drop", LOWER).low, term_facts("x", "drop", LOWER).high) == (-5, 5)
    assert term_facts("x", "drop", BINARY).direction == term_facts("x", "drop", LOWER).direction == "lower"


def test_lost_samples_may_have_any_drop_and_inapplicable_ones_have_none():
    drop = drop_scores(
        BINARY, scores_of([1, NAN, 1, 1], lost=[1]), scores_of([NAN, 0, NAN, 1], lost=[0], inapplicable=[2])
    )

    assert drop.lost.tolist() == [True, True, False, False]
    assert drop.inapplicable.tolist() == [False, False, True, False]
    assert drop.low[:2].tolist() == [0, 0]
    assert drop.high[:2].tolist() == [1, 1]
    assert np.isnan(drop.values[:3]).all()


def test_only_samples_that_are_right_as_they_are_can_break():
    broken = broken_scores(BINARY, scores_of([1, 0, 1, NAN], lost=[3]), scores_of([0, 0, 1, 1]))

    assert broken.values[[0, 2]].tolist() == [1, 0]
    assert broken.inapplicable.tolist() == [False, True, False, False]
    # The sample itself may have been right.
    assert (broken.lost[3], broken.low[3], broken.high[3]) == (True, 0, 1)


def test_several_draws_are_their_mean_or_their_worst():
    draws = [
        scores_of([1, 0, NAN], inapplicable=[2]),
        scores_of([0, 0, 1]),
        scores_of([1, NAN, NAN], lost=[1], inapplicable=[2]),
    ]

    mean = combine(BINARY, draws, is_worst=False)
    worst = combine(BINARY, draws, is_worst=True)

    assert mean.values == pytest.approx([2 / 3, 0, 1])
    assert (mean.low[1], mean.high[1]) == pytest.approx((0, 1 / 3))
    assert worst.values.tolist() == [0, 0, 1]
    assert mean.lost.tolist() == worst.lost.tolist() == [False, True, False]
    assert combine(LOWER, [scores_of([1, 2]), scores_of([3, 1])], is_worst=True).values.tolist() == [3, 2]
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
    drop = drop_scores(BINARY, scores_of(clean), scores_of(attacked))
    everything = np.ones(50, dtype=bool)
    difference = drop_difference(drop.pair, SampleAttributes(), everything, "observed", 0.05)

    measured = estimate_drop(difference)
    pair = tuple([ScoredMetric(BINARY, scores_of(values))] for values in (clean, attacked))
    contrast, ends = Contrast(metric="ok", baseline="", margin=0.1), ("observed", "observed")
    arms = compare_pair(contrast, pair, SampleAttributes(), everything, ends, 0.05)
    assert measured.value == pytest.approx(8 / 50)
    assert (measured.interval.low, measured.interval.high) == pytest.approx((arms.interval.low, arms.interval.high))
    bounds, method = bound_drop(difference)
    assert (bounds.lower, bounds.upper) == pytest.approx((arms.lower, arms.upper))
    assert method == arms.bounds_method


def test_the_ends_of_a_drop_with_a_lost_twin_are_the_two_values_it_could_have():
    drop = drop_scores(BINARY, scores_of([1] * 10), scores_of([1] * 9 + [NAN], lost=[9]))
    everything = np.ones(10, dtype=bool)

    low, high = (drop_difference(drop.pair, SampleAttributes(), everything, end, 0.05).value for end in ("low", "high"))
    assert (-low, -high) == pytest.approx((0, 0.1))


@pytest.mark.parametrize(("view", "problem"), [("broken", True), ("broken_any", True), ("drop", False), ("", False)])
def test_only_binary_metrics_can_break(view, problem):
    assert bool(view_problem(view, LOWER)) == problem
    assert not view_problem(view, BINARY)
    assert not view_problem(view, MetricFacts(name="later"))
