"""Filters and orders of samples, compared with a naive list."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.view.samples.index import STATES, MetricColumn, SampleIndex, code_texts
from pytest_crucible.features.view.samples.select import SHOW, SORTS, ListState, select_samples
from pytest_crucible.records import MetricFacts

NUMBERS = st.sampled_from([math.nan, -1.0, 0.0, 0.25, 0.5, 1.0])
ARM = st.fixed_dictionaries(
    {"value": NUMBERS, "lost": st.booleans(), "state": st.sampled_from(STATES), "latency": NUMBERS}
)
SAMPLE = st.fixed_dictionaries({"arms": st.tuples(ARM, ARM), "group": st.sampled_from([None, "a", "b", "%"])})
CHOICES = st.builds(
    ListState,
    show=st.sampled_from(SHOW),
    sort=st.sampled_from(SORTS),
    group=st.sampled_from(["", "a", "%"]),
    metric=st.just("m"),
)


def index_of(samples: list[Any], direction: str) -> SampleIndex:
    def column(arm: int, name: str, kind: type) -> Any:
        return np.array([sample["arms"][arm][name] for sample in samples], dtype=kind)

    arms = range(2)
    return SampleIndex(
        facts={"m": MetricFacts(name="m", direction=direction)},
        metrics={
            "m": tuple(
                MetricColumn(column(a, "value", float), column(a, "lost", bool), column(a, "lost", bool)) for a in arms
            )
        },
        main="m",
        states=tuple(
            np.array([STATES.index(sample["arms"][a]["state"]) for sample in samples], dtype=np.uint8) for a in arms
        ),
        latency_s=tuple(column(a, "latency", float) for a in arms),
        groups=code_texts([sample["group"] for sample in samples]),
        is_final=True,
    )


def naive_gain(sample: Any, direction: str) -> float:
    candidate, baseline = (arm["value"] for arm in sample["arms"])
    return (candidate - baseline) * (-1 if direction == "lower" else 1)


def naive_shows(sample: Any, state: ListState, direction: str) -> bool:
    if state.group and sample["group"] != state.group:
        return False
    gain = naive_gain(sample, direction)
    lost = [arm["state"] == "lost" or (arm["lost"] and arm["state"] != "failed") for arm in sample["arms"]]
    return {
        "": True,
        "worse": gain < 0,
        "better": gain > 0,
        "equal": gain == 0,
        "lost": any(lost),
        "failed": any(arm["state"] == "failed" for arm in sample["arms"]),
        "skipped": any(arm["state"] == "skipped" for arm in sample["arms"]),
    }[state.show]


def naive_key(sample: Any, state: ListState, direction: str) -> float:
    good = [arm["value"] * (-1 if direction == "lower" else 1) for arm in sample["arms"]]
    key = {
        "": 0.0,
        "most-lost": naive_gain(sample, direction),
        "most-gained": -naive_gain(sample, direction),
        "worst": good[0],
        "best": -good[0],
        "baseline-worst": good[1],
        "baseline-best": -good[1],
        "slowest": -sample["arms"][0]["latency"],
        "fastest": sample["arms"][0]["latency"],
    }[state.sort]
    return math.inf if math.isnan(key) else key


@given(st.lists(SAMPLE, max_size=12), CHOICES, st.sampled_from(["higher", "lower"]))
def test_a_list_is_what_a_naive_filter_and_a_naive_order_give(samples, state, direction):
    expected = [k for k, sample in enumerate(samples) if naive_shows(sample, state, direction)]
    expected.sort(key=lambda k: naive_key(samples[k], state, direction))

    assert select_samples(index_of(samples, direction), state).tolist() == expected


def arm(value: float, state: str = "answered", *, lost: bool = False, latency: float = 1.0) -> dict[str, Any]:
    return {"value": value, "state": state, "lost": lost, "latency": latency}


EACH = [
    {"arms": arms, "group": None}
    for arms in [
        (arm(0.0, latency=3.0), arm(1.0)),
        (arm(1.0, latency=0.5), arm(0.0)),
        (arm(0.5), arm(0.5, latency=2.0)),
        (arm(math.nan, lost=True), arm(0.25)),
        (arm(0.25), arm(math.nan, "lost")),
        (arm(0.0, "failed", lost=True), arm(-1.0)),
        (arm(math.nan, "skipped"), arm(1.0)),
        (arm(math.nan, "pending", latency=math.nan), arm(math.nan, "not run")),
    ]
]
"""A sample of each kind."""


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize("sort", SORTS)
def test_each_filter_and_order_of_samples_of_each_kind_is_the_naive_one(sort, direction):
    for show in SHOW:
        state = ListState(show=show, sort=sort, metric="m")
        expected = [k for k, sample in enumerate(EACH) if naive_shows(sample, state, direction)]
        expected.sort(key=lambda k: naive_key(EACH[k], state, direction))

        assert select_samples(index_of(EACH, direction), state).tolist() == expected, show


@given(st.lists(SAMPLE, max_size=12), CHOICES)
def test_other_filters_leave_the_order_as_it_is(samples, state):
    index = index_of(samples, "higher")
    even = np.arange(len(samples)) % 2 == 0

    assert select_samples(index, state, even).tolist() == [
        k for k in select_samples(index, state).tolist() if k % 2 == 0
    ]


@pytest.mark.parametrize("sort", ["worst", "best"])
def test_what_is_unknown_comes_last_in_both_directions(sort):
    arm = {"lost": False, "state": "answered", "latency": 1.0}
    samples = [{"group": None, "arms": ({**arm, "value": value},) * 2} for value in (math.nan, 0.0, 1.0)]

    assert select_samples(index_of(samples, "higher"), ListState(metric="m", sort=sort)).tolist()[-1] == 0
