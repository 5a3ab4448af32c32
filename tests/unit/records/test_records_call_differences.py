"""Differences between calls: what is declared is let through, and everything else has a name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records import Arm
from pytest_crucible.records.call_differences import SentCalls, SentComparison, changes_text
from pytest_crucible.records.serialize import canonical


def arm(name: str = "v1", **facts: Any) -> Arm:
    return Arm(name=name, role="baseline", adapter=name, identity=name, **facts)


def sent(*settings: Any, messages: int | None = None) -> SentCalls:
    return SentCalls(messages, tuple(map(canonical, settings)))


def compare(ours: Arm, theirs: Arm, **facts: Any) -> SentComparison:
    return SentComparison(ours, theirs, (canonical(ours.parameters), canonical(theirs.parameters)), **facts)


PLAIN = compare(arm("v2"), arm("v1"))
SETTINGS = st.dictionaries(st.sampled_from(["temperature", "stop", "tools", "seed"]), st.integers(0, 2), max_size=4)
CALLS = st.builds(
    lambda settings, messages: sent(*settings, messages=messages),
    st.lists(SETTINGS, min_size=1, max_size=3, unique_by=canonical),
    st.none() | st.integers(0, 2),
)


@given(CALLS, CALLS)
def test_differences_are_the_same_from_both_sides(ours, theirs):
    there = PLAIN.differences(ours, theirs)
    assert PLAIN.differences(theirs, ours) == {name: pair[::-1] for name, pair in there.items()}
    assert PLAIN.differences(ours, ours) == {}
    assert compare(arm(), arm(), declared="*").differences(ours, theirs) == {}


@given(CALLS, CALLS)
def test_a_declared_name_is_never_a_difference(ours, theirs):
    declared = compare(arm(), arm(), declared=["stop", "messages"])
    assert not declared.differences(ours, theirs).keys() & {"stop", "messages"}


def test_a_parameter_of_one_arm_alone_differs_from_none():
    differences = PLAIN.differences(sent({"reasoning_effort": "low"}), sent({}))
    assert differences == {"reasoning_effort": ("low", None)}
    assert changes_text(differences) == "reasoning_effort low then, none now"


def test_a_seed_names_a_draw():
    assert not PLAIN.differences(sent({"seed": 1}), sent({"seed": 2}))


@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [
        (0, 1, set()),  # each its adapter's
        (0, 0, set()),  # the test passes one value to both
        (0, 0.5, {"temperature"}),  # it has passed 0.5 to the baseline, and passes nothing now, or 0
        (0.5, 1, {"temperature"}),
    ],
)
def test_values_of_the_adapters_may_differ_and_others_not(ours, theirs, names):
    comparison = compare(arm("v2", parameters={"temperature": 0}), arm("v1", parameters={"temperature": 1}))
    assert comparison.differences(sent({"temperature": ours}), sent({"temperature": theirs})).keys() == names


def test_variables_may_be_passed_on_and_be_in_messages():
    comparison = compare(arm("v2", variables={"effort": "high"}), arm("v1", variables={"effort": "low"}))
    high, low = sent({"reasoning_effort": "high"}, messages=1), sent({"reasoning_effort": "low"}, messages=2)
    assert not comparison.differences(high, low)
    assert comparison.differences(low, high)


def test_a_conversation_that_ended_earlier_does_not_differ():
    first, last, other = {"tools": 1}, {"response_format": "json"}, {"response_format": "text"}
    assert not PLAIN.differences(sent(first), sent(first, last))
    assert PLAIN.differences(sent(first, other), sent(first, last)).keys() == {"response_format"}


def test_messages_differ_by_their_form():
    assert PLAIN.differences(sent({}, messages=1), sent({}, messages=2)) == {"messages": (None, None)}
    assert not compare(arm(), arm(), with_messages=False).differences(sent({}, messages=1), sent({}))
