"""Events of experiments and samples, and the listeners that receive them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from adapter_contexts import default_settings
from experiment_builders import ALONE
from report_builders import make_plan

from pytest_crucible.records import Event, Outcome, Unit
from pytest_crucible.session.events import EventPublisher, experiment_span, with_sample_spans

UNIT = Unit(3, 0, 1, 2)


def ask_with_spans(events: list[Event], ask: Any) -> None:
    spanned = with_sample_spans(events.append, ask, make_plan(), lambda position: f"q{position}")
    asyncio.run(spanned(UNIT))


def test_an_experiment_starts_with_what_it_measures_and_stops_with_its_duration():
    events: list[Event] = []
    with experiment_span(events.append, make_plan()):
        assert [event.name for event in events] == ["experiment.start"]

    start, stop = events
    assert start.facts == {"dataset": "sums", "samples": 200, "arms": ["v2", "v1"]}
    assert stop.name == "experiment.stop"
    assert stop.seconds is not None
    assert stop.seconds >= 0


def test_an_experiment_that_raises_stops_all_the_same():
    events: list[Event] = []
    with pytest.raises(ValueError, match="broken"), experiment_span(events.append, make_plan()):
        raise ValueError("broken")

    assert [event.name for event in events] == ["experiment.start", "experiment.stop"]


def test_a_sample_is_named_by_its_id_arm_and_repeat():
    events: list[Event] = []

    async def ask(unit: Unit) -> Outcome:
        return Outcome(unit)

    ask_with_spans(events, ask)

    assert [event.name for event in events] == ["sample.start", "sample.stop"]
    assert {(event.sample, event.arm, event.repeat) for event in events} == {("q3", "v1", 2)}


@pytest.mark.parametrize(
    ("outcome", "facts"),
    [
        (Outcome(UNIT), {"outcome": "answered"}),
        (Outcome(UNIT, skipped=True), {"outcome": "skipped"}),
        (Outcome(UNIT, failure="truncated"), {"outcome": "failed", "reason": "truncated"}),
        (Outcome(UNIT, lost="error"), {"outcome": "lost", "reason": "error"}),
    ],
    ids=["answered", "skipped", "failed", "lost"],
)
def test_a_sample_stops_with_its_outcome(outcome, facts):
    events: list[Event] = []

    async def ask(unit: Unit) -> Outcome:
        return outcome

    ask_with_spans(events, ask)

    assert events[1].facts == facts


def test_a_sample_that_is_cancelled_says_so():
    events: list[Event] = []

    async def ask(unit: Unit) -> Outcome:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        ask_with_spans(events, ask)

    assert events[1].facts == {"outcome": "cancelled"}


def test_without_a_listener_nothing_is_wrapped():
    async def ask(unit: Unit) -> Outcome:
        return Outcome(unit)

    assert with_sample_spans(None, ask, make_plan(), str) is ask


# -- listeners ------------------------------------------------------------------------------------------------------


class Listener:
    def __init__(self, error: Exception | None = None) -> None:
        self.heard: list[str] = []
        self.error = error

    def pytest_crucible_event(self, event: Event) -> None:
        self.heard.append(event.name)
        if self.error is not None:
            raise self.error


def publisher(pytester: pytest.Pytester, **listeners: Listener) -> EventPublisher:
    config = pytester.parseconfig(*ALONE)
    for name, listener in listeners.items():
        config.pluginmanager.register(listener, name)
    return EventPublisher(config, default_settings(), "run")


def test_a_listener_that_raises_is_dropped_and_the_others_receive_each_event_once(pytester):
    good, bad, other = Listener(), Listener(ValueError("no disk")), Listener()
    events = publisher(pytester, good=good, bad=bad, other=other)
    for name in ("request.start", "request.stop"):
        events.emit(Event(name=name, at=0.0))

    assert (good.heard, bad.heard, other.heard) == (
        ["request.start", "request.stop"],
        ["request.start"],
        ["request.start", "request.stop"],
    )
    assert events.pop_failures() == [
        "pytest_crucible_event in 'bad' raised ValueError: no disk on the event request.start: it receives no more events"
    ]
    assert events.pop_failures() == []


def test_without_a_listener_of_their_own_samples_have_no_events(pytester):
    assert publisher(pytester).sample_emit is None
    assert publisher(pytester, one=Listener()).sample_emit is not None


def test_listeners_are_looked_up_when_the_first_event_is_emitted(pytester):
    events = publisher(pytester)
    late = Listener()
    events._config.pluginmanager.register(late, "late")
    events.emit(Event(name="request.start", at=0.0))

    assert late.heard == ["request.start"]


def test_a_publisher_that_emitted_nothing_looks_up_no_listener_to_close(pytester):
    events = publisher(pytester)
    events.close()

    assert events.pop_failures() == []
    assert "emit" not in vars(events)
