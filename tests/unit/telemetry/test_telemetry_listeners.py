"""Several listeners as one, none of which can break a run."""

from __future__ import annotations

import pytest

from pytest_crucible.records import Event
from pytest_crucible.telemetry.listeners import Listeners

EVENT = Event(name="request.stop", at=1.0, experiment="t.py::t", arm="v2", sample="a")


def test_all_listeners_receive_events():
    first, second = [], []
    tell = Listeners({"first": first.append, "second": second.append})
    tell(EVENT)

    assert first == second == [EVENT]
    assert tell.pop_failures() == []


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), SystemExit(2), pytest.fail.Exception("no")])
def test_raising_listener_is_dropped(error):
    calls, others = [], []

    def fail(event: Event) -> None:
        calls.append(event)
        raise error

    tell = Listeners({"a plugin": fail, "another": others.append})
    tell(EVENT)
    tell(EVENT)

    assert (len(calls), len(others)) == (1, 2)


@pytest.mark.parametrize(
    ("error", "description"),
    [(ValueError("two\nlines"), "ValueError: two lines"), (AssertionError(), "AssertionError")],
)
def test_failure_is_reported_once(error, description):
    def fail(event: Event) -> None:
        raise error

    tell = Listeners({"a plugin": fail})
    tell(EVENT)
    tell(EVENT)

    assert tell.pop_failures() == [
        f"a plugin raised {description} on the event request.stop: it receives no more events"
    ]
    assert tell.pop_failures() == []


def test_listeners_are_closed():
    class Closeable:
        closed = 0

        def __call__(self, event: Event) -> None:
            pass

        def close(self) -> None:
            self.closed += 1
            raise ConnectionError("gone")

    listener, events = Closeable(), []
    tell = Listeners({"a collector": listener, "a list": events.append})
    tell.close()

    assert listener.closed == 1
    assert tell.pop_failures() == ["a collector raised ConnectionError: gone when it was closed"]


def test_keyboard_interrupt_passes_through():
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Listeners({"a plugin": interrupt})(EVENT)


class Deaf:
    """Wants to know of all but starts."""

    ignores = frozenset({"request.start"})

    def __call__(self, event: Event) -> None:
        raise AssertionError(f"it got {event.name}")


def test_ignored_events_are_not_wanted():
    assert not Listeners({"deaf": Deaf()}).listens_to("request.start")
    assert Listeners({"deaf": Deaf()}).listens_to("request.stop")
    assert Listeners({"deaf": Deaf(), "a plugin": [].append}).listens_to("request.start")
