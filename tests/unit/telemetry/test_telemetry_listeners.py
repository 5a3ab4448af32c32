"""Several listeners as one, none of which can break a run."""

from __future__ import annotations

import pytest

from pytest_crucible.records import Event
from pytest_crucible.telemetry.listeners import Listeners

EVENT = Event(name="request.stop", at=1.0, experiment="t.py::t", arm="v2", sample="a")


def test_all_listeners_get_an_event():
    first, second = [], []
    tell = Listeners({"first": first.append, "second": second.append})
    tell(EVENT)

    assert first == second == [EVENT]
    assert tell.pop_failures() == []


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), SystemExit(2), pytest.fail.Exception("no")])
def test_a_listener_that_raises_gets_no_further_events_and_the_others_do(error):
    calls, others = [], []

    def fail(event: Event) -> None:
        calls.append(event)
        raise error

    tell = Listeners({"a plugin": fail, "another": others.append})
    tell(EVENT)
    tell(EVENT)

    assert (len(calls), len(others)) == (1, 2)


def test_it_is_complained_of_once():
    def fail(event: Event) -> None:
        raise ValueError("two\nlines")

    tell = Listeners({"a plugin": fail})
    tell(EVENT)
    tell(EVENT)

    assert tell.pop_failures() == [
        "a plugin raised ValueError: two lines on the event request.stop: it receives no more events"
    ]
    assert tell.pop_failures() == []


def test_an_error_without_words_is_named():
    def fail(event: Event) -> None:
        raise AssertionError

    tell = Listeners({"a plugin": fail})
    tell(EVENT)

    assert tell.pop_failures()[0].startswith("a plugin raised AssertionError on")


def test_those_that_can_be_closed_are_and_may_fail_at_it():
    class Closeable:
        closed = 0

        def __call__(self, event: Event) -> None:
            pass

        def close(self) -> None:
            self.closed += 1
            raise ConnectionError("gone")

    listener, calls = Closeable(), []
    tell = Listeners({"a collector": listener, "a list": calls.append})
    tell.close()

    assert listener.closed == 1
    assert tell.pop_failures() == ["a collector raised ConnectionError: gone when it was closed"]


def test_ctrl_c_is_no_error_of_a_listener():
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Listeners({"a plugin": interrupt})(EVENT)


class Deaf:
    """Wants to know of all but starts."""

    ignores = frozenset({"request.start"})

    def __call__(self, event: Event) -> None:
        raise AssertionError(f"it got {event.name}")


def test_without_listeners_no_event_is_built():
    assert not Listeners({"deaf": Deaf()}).listens_to("request.start")
    assert Listeners({"deaf": Deaf()}).listens_to("request.stop")
    assert Listeners({"deaf": Deaf(), "a plugin": [].append}).listens_to("request.start")
