"""The order of time of the steps of one reply."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_timeline import order_steps
from pytest_crucible.features.provenance.timeline import Step


def call(number: int, member: str = "") -> Step:
    return Step(kind="member" if member else "call", title=f"call {number}{member}", call=number, member=member)


def request(number: int, at: float, seconds: float, member: str = "") -> Step:
    return Step(kind="request", title=f"request {number}{member}", call=number, at=at, seconds=seconds, member=member)


def decision(number: int, at: float, calls: int) -> Decision:
    return Decision(number=number, kind="decision", decision=f"decision {number}", calls=calls, at=at)


def titles(*steps: Step) -> list[str]:
    return [step.title.removeprefix("decision: ") for step in steps]


def test_concurrent_calls_begin_with_their_own_first_event():
    ordered = order_steps([call(1), call(2)], [request(2, 3.0, 2.0), request(1, 4.0, 4.0)], [])

    assert titles(*ordered) == ["call 1", "call 2", "request 2", "request 1"]


def test_a_call_whose_reply_was_copied_follows_what_was_decided_before_it():
    ordered = order_steps([call(1), call(2)], [], [decision(1, 5.0, 0), decision(2, 6.0, 1), decision(3, 7.0, 2)])

    assert titles(*ordered) == ["decision 1", "call 1", "decision 2", "call 2", "decision 3"]


def test_a_call_of_an_ensemble_begins_with_its_first_member():
    parts = [call(1), call(1, "a"), call(1, "b")]

    ordered = order_steps(parts, [request(1, 2.0, 1.0, "b"), request(1, 3.5, 1.0, "a")], [])

    assert titles(*ordered) == ["call 1", "call 1b", "request 1b", "call 1a", "request 1a"]


def test_a_call_stands_before_its_cached_reply():
    cached = Step(kind="cached", title="cached", call=1, at=4.0)

    assert titles(*order_steps([call(1), cached], [], [decision(1, 3.0, 0)])) == ["decision 1", "call 1", "cached"]


times = st.floats(1.0, 100.0)


@given(
    requests=st.lists(st.tuples(st.integers(1, 4), times, st.floats(0.0, 1.0)), max_size=8),
    decisions=st.lists(st.tuples(times, st.integers(0, 4)), max_size=6),
)
def test_no_step_is_lost_and_no_request_stands_before_its_call(requests, decisions):
    calls = [call(number) for number in range(1, 5)]
    events = [request(*values) for values in requests]

    ordered = order_steps(calls, events, [decision(k, *values) for k, values in enumerate(decisions, start=1)])

    assert len(ordered) == len(calls) + len(events) + len(decisions)
    places = {step.call: place for place, step in enumerate(ordered) if step.kind == "call"}
    assert all(places[step.call] < place for place, step in enumerate(ordered) if step.kind == "request")
