"""One value a sample from single scores, against a slow implementation that looks at one sample at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.analyse.scores import resolve, scores
from pytest_crucible.records import ArmOutcomes, Lost, MetricFacts, ScoreColumns, Unit

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
def test_it_is_what_looking_at_one_sample_at_a_time_gives(arm):
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


def test_a_failure_keeps_what_it_scored():
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
    column = ScoreColumns(
        positions=range(len(values)),
        repeats=[0] * len(values),
        values=[None if value is None else float(value) for value in values],
        is_bool=[isinstance(value, bool) for value in values],
    )
    return ArmOutcomes(
        positions=range(len(values)), repeats=[0] * len(values), failures=[None] * len(values),
        skipped=[False] * len(values), scores={"m": column} if values else {}, lost=[],
        labels=frozenset({"m"} if label else ()),
    )  # fmt: skip


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


def test_what_is_binary_lies_between_0_and_1():
    facts = resolve(MetricFacts(name="m"), [outcomes_of(True)], {})

    assert (facts.low, facts.high) == (0.0, 1.0)


def test_a_declared_bound_and_direction_stay():
    facts = resolve(MetricFacts(name="m", low=0.0, direction="lower"), [outcomes_of(2.0)], {})

    assert (facts.kind, facts.low, facts.high, facts.direction) == ("unbounded", 0.0, INF, "lower")
