"""Events of requests: the start, and the result."""

from __future__ import annotations

import asyncio

import pytest

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.spending import Metered
from pytest_crucible.records import Event, Reply, Request
from pytest_crucible.records.errors import BackendError, Retryable

REQUEST = Request(input="2 + 2", sample="a", repeat=1, experiment="test_sums.py::test_sums", arm="v2")


def events_of(script, *, starts: bool = True) -> tuple[list[Event], BaseException | None]:
    events: list[Event] = []
    backend = Metered(ScriptedBackend(script, identity="sums"), events.append, starts=starts)
    try:
        asyncio.run(backend.generate(REQUEST))
    except Exception as error:
        return events, error
    return events, None


def test_request_events_name_their_unit():
    events, _ = events_of(lambda request: "4")

    assert [event.name for event in events] == ["request.start", "request.stop"]
    assert {(event.experiment, event.arm, event.sample, event.repeat) for event in events} == {
        ("test_sums.py::test_sums", "v2", "a", 1)
    }


def test_start_event_is_omitted_without_listeners():
    events, _ = events_of(lambda request: "4", starts=False)

    assert [event.name for event in events] == ["request.stop"]


def test_stop_event_has_time_and_tokens():
    events, _ = events_of(lambda request: Reply(text="4", input_tokens=5, output_tokens=1))

    assert events[1].seconds >= 0
    assert events[1].facts == {"input_tokens": 5, "output_tokens": 1, "finish": "stop", "cost_usd": None}


def test_stop_event_has_first_token_and_model():
    events, _ = events_of(lambda request: Reply(text="4", first_token_s=0.5, model="m-1"))

    assert (events[1].facts["first_token_s"], events[1].facts["model"]) == (0.5, "m-1")


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (Reply(text=4), "a Reply that has text 4: expected a text"),
        (Reply(text="4", finish=None), "a Reply that has finish None: expected a text"),
        (
            Reply(text="4", input_tokens="5"),
            "a Reply that has input_tokens '5': expected a whole number from 0, or None",
        ),
        (Reply(text="4", output_tokens=-1), "has output_tokens -1"),
        (Reply(text="4", output_tokens=2**63), f"has output_tokens {2**63}"),
        (Reply(text="4", latency_s=float("nan")), "has latency_s nan: expected a number from 0, or None"),
        (Reply(text="4", cost_usd=-1), "has cost_usd -1"),
        (4, "the backend returned a number: generate() must return a Reply"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_invalid_reply_is_refused(reply, sentence):
    class Odd:
        identity, simulated = "odd", True

        async def generate(self, request):
            return reply

    events: list[Event] = []
    with pytest.raises(BackendError) as caught:
        asyncio.run(Metered(Odd(), events.append).generate(REQUEST))

    assert sentence in str(caught.value)
    assert events[1].facts == {"error": "BackendError"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "kind"),
    [(Retryable("busy", kind="429"), "429"), (ValueError("x"), "ValueError"), (asyncio.CancelledError(), "cancelled")],
)
def test_stop_event_names_the_error_class(error, kind):
    def fails(request):
        raise error

    events: list[Event] = []
    backend = Metered(ScriptedBackend(fails, identity="sums"), events.append)
    with pytest.raises(BaseException, match=str(error) or None):
        asyncio.run(backend.generate(REQUEST))

    assert events[1].facts == {"error": kind}
