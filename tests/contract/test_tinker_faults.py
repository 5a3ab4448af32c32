"""A service that is not ours and goes wrong, under the unmodified SDK: who waits, for how long, and what is said.

A relay before a local server stands in for the hosted service. Skipped where the SDK is not installed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faulty_tinker import Fault, Faulty, in_time

from pytest_crucible.backends.context import BackendContext, QueueStates
from pytest_crucible.backends.deadlines import TimeLimit, set_clock
from pytest_crucible.backends.tinker import health as pulses
from pytest_crucible.backends.tinker import service as tinker_service
from pytest_crucible.backends.tinker.backend import TinkerBackend
from pytest_crucible.backends.tinker.health import HealthMonitor, watch_queue
from pytest_crucible.backends.tinker.service import Service, ServiceAddress, check_answers, fetch_health
from pytest_crucible.records import Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError

SUBMIT, FETCH = ("/asample",), ("/retrieve_future",)


class Codes:
    """A tokenizer of code points."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: Any, *, skip_special_tokens: bool) -> str:
        return " ".join(map(str, token_ids))


@pytest.fixture
def patience_s() -> float:
    """The time that a service may be silent. A busy machine is silent for a second, too."""
    return 10.0


@pytest.fixture
def hosted(server, monkeypatch, patience_s) -> Iterator[Faulty]:
    pytest.importorskip("tinker")
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
    monkeypatch.setattr(pulses, "GONE_S", patience_s)
    monkeypatch.setattr(pulses, "BUSY_S", 0.8)
    monkeypatch.setattr(pulses, "QUIET_S", 0.2)
    with Faulty(server.url) as faulty:
        yield faulty


@pytest.fixture
def opened(hosted, server, patience_s) -> Iterator[Callable[[], Service]]:
    import tinker

    watching: list[Any] = []

    def open_service() -> Service:
        pulse = HealthMonitor("Tinker", lambda: fetch_health(hosted.url, patience_s=patience_s))
        service = Service(
            ServiceAddress(hosted.url, server.key),
            tinker,
            name="Tinker",
            wait_s=20,
            seed=0,
            check=pulse.check,
            hide=lambda text: text.replace(server.key, "(key)"),
            watched=pulse.listen,
        )
        watching.append((service, pulse))
        return service

    yield open_service
    hosted.fault = None
    for service, pulse in watching:
        service.close(alive=True)
        pulse.close()


@pytest.fixture
def backend(opened) -> TinkerBackend:
    service = opened()
    client = service.sampling_client(base_model="crucible/tiny")
    return TinkerBackend(client, Codes(), identity="a", check=service.check, hide=service.hide)


def request(max_tokens: int = 4) -> Request:
    return Request(input="claim", sample="q", repeat=0, parameters={"max_tokens": max_tokens, "stop": []})


async def ask(backend: TinkerBackend, times: int = 1) -> list[Any]:
    requests = (backend.generate(request()) for _ in range(times))
    return await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 30)


@pytest.mark.slow
@pytest.mark.parametrize("patience_s", [0.4])
@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        (Fault("cut"), "connection", "does not answer any more: "),
        (Fault("hang"), "connection", "does not answer any more: no answer within 0.4 s"),
        (Fault("status", 429), "429", "has responded only with status 429 for 0.8 s"),
        (Fault("status", 503), "503", "has responded only with status 503 for 0.8 s"),
        (Fault("status", 503, FETCH), "503", "has responded only with status 503 for 0.8 s"),
        (Fault("status", 429, SUBMIT), "429", "has responded only with status 429 for 0.8 s"),
    ],
    ids=["cut", "hang", "429", "503", "503 for results", "429 for requests"],
)
def test_trouble_in_the_middle_of_a_run_loses_samples_in_time(hosted, backend, fault, kind, sentence):
    assert all(entry.output_tokens == 4 for entry in asyncio.run(ask(backend, 2)))

    hosted.fault = fault
    with in_time(30):
        lost = asyncio.run(ask(backend, 3))

    assert [(type(entry), entry.kind) for entry in lost] == [(Retryable, kind)] * 3
    assert all(sentence in str(entry) for entry in lost)


@pytest.mark.parametrize("paths", [SUBMIT, FETCH], ids=["of requests", "of results"])
def test_garbage_is_no_reply(hosted, backend, paths):
    hosted.fault = Fault("garbage", paths=paths)
    (lost,) = asyncio.run(ask(backend))

    assert isinstance(lost, BackendError)
    assert "Tinker gave no answer: " in str(lost)


@pytest.mark.parametrize("patience_s", [0.4])
def test_an_unpaid_bill_stops_all(hosted, backend):
    hosted.fault = Fault("status", 402, SUBMIT)
    (stopped,) = asyncio.run(ask(backend))

    assert isinstance(stopped, Refused)
    assert "status 402: it requires payment" in str(stopped)


@pytest.mark.parametrize("status", [401, 403])
def test_a_revoked_key_stops_the_run(hosted, backend, status):
    hosted.fault = Fault("status", status, SUBMIT)
    (stopped,) = asyncio.run(ask(backend))

    assert isinstance(stopped, Refused)


@pytest.mark.parametrize(
    "fault",
    [Fault("cut", times=1), Fault("status", 429, SUBMIT, times=1), Fault("status", 503, FETCH, times=20)],
    ids=["cut", "429", "503"],
)
def test_a_temporary_fault_is_waited_for(hosted, backend, fault, monkeypatch):
    monkeypatch.setattr(pulses, "BUSY_S", 30.0)
    hosted.fault = fault
    (reply,) = asyncio.run(ask(backend))

    assert reply.output_tokens == 4


@pytest.mark.parametrize("patience_s", [0.4])
def test_a_service_that_returns_gets_requests_again(hosted, backend):
    hosted.fault = Fault("cut")
    (lost,) = asyncio.run(ask(backend))
    hosted.fault = None

    async def until_answered() -> Any:
        while True:
            (reply,) = await ask(backend)
            if not isinstance(reply, Retryable):
                return reply
            await asyncio.sleep(0.05)

    assert isinstance(lost, Retryable)
    assert asyncio.run(asyncio.wait_for(until_answered(), 60)).output_tokens == 4


@pytest.mark.slow
@pytest.mark.parametrize("patience_s", [1.0])
def test_a_slow_answer_is_no_trouble(hosted, opened):
    """Longer than a service may be silent; but it is asked after its health, and well."""
    service = opened()
    client = service.sampling_client(base_model="crucible/tiny")
    backend = TinkerBackend(client, Codes(), identity="a", check=service.check)
    hosted.fault = Fault("hang", paths=FETCH, times=1)

    async def generate_once() -> Any:
        requests = asyncio.ensure_future(backend.generate(request()))
        await asyncio.sleep(1.5)
        assert not requests.done()
        hosted.released.set()
        return await asyncio.wait_for(requests, 30)

    assert asyncio.run(generate_once()).output_tokens == 4


# Before anything is asked


@pytest.mark.parametrize(
    ("fault", "seconds", "sentence"),
    [
        (Fault("hang"), 0.6, "Tinker at {url} does not answer within 0.6 s"),
        (Fault("cut"), 30.0, "Tinker at {url} does not answer: .+"),
        (Fault("status", 503), 1.0, "Tinker at {url} responds only with status 503: try again later"),
        (Fault("status", 429), 1.0, "Tinker at {url} responds only with status 429: try again later"),
    ],
    ids=["hang", "cut", "503", "429"],
)
def test_a_service_in_trouble_is_not_opened(hosted, monkeypatch, fault, seconds, sentence):
    monkeypatch.setattr(tinker_service, "HEALTH_S", seconds)
    hosted.fault = fault

    with in_time(30), pytest.raises(SpecError) as raised:
        check_answers(hosted.url)
    assert re.fullmatch(sentence.format(url=re.escape(hosted.url)), str(raised.value))


@pytest.mark.parametrize("status", [200, 401, 404])
def test_a_service_that_answers_with_errors_counts_as_reachable(hosted, status):
    hosted.fault = Fault("status", status)

    check_answers(hosted.url)


def test_a_login_page_is_no_tinker(hosted, opened):
    hosted.fault = Fault("garbage")
    service = opened()

    with in_time(30), pytest.raises(SpecError, match="Tinker did not open a session: "):
        _ = service.client


@pytest.mark.parametrize("patience_s", [0.4])
def test_a_fault_while_opening_a_model_is_reported_in_time(hosted, opened):
    service = opened()
    _ = service.client
    hosted.fault = Fault("hang")

    with in_time(30), pytest.raises(SpecError, match=r"Tinker does not answer any more: no answer within 0.4 s"):
        service.sampling_client(base_model="crucible/tiny")


# -- a service that lets requests wait


def test_a_pause_is_shown_while_it_lasts_and_is_not_the_time_of_the_sample(hosted, opened, monkeypatch):
    monkeypatch.setattr("pytest_crucible.backends.tinker.backend.LOOK_S", 0.05)
    service, shared = opened(), BackendContext()
    client = service.sampling_client(base_model="crucible/tiny")
    queue = shared.queues.open()
    watch_queue(client, service.name, queue)
    backend = TinkerBackend(client, Codes(), identity="a", check=service.check, queue=queue)
    pauses: list[str] = []

    async def ask_in_a_queue() -> tuple[Any, str]:
        assert (await ask(backend))[0].output_tokens == 4
        hosted.fault, hosted.hits = Fault("paused", paths=FETCH, times=24), 0
        with TimeLimit(1.2) as limit:
            set_clock(limit)
            asking = asyncio.create_task(backend.generate(request()))
            while not shared.waits_for(0.0):
                await asyncio.sleep(0.01)
            return shared.waits_for(0.0), await asking

    with shared.queues.listening(pauses.append):
        lines, reply = asyncio.run(ask_in_a_queue())
    assert lines == "Tinker is paused: rate limit"
    assert reply.output_tokens == 4
    assert hosted.hits > 24
    assert shared.waits_for(0.0) == ""
    assert pauses == ["Tinker is paused: rate limit"]


def test_a_pause_of_a_training_is_shown(hosted, opened):
    service, states, pauses = opened(), QueueStates(), []
    client = service.training_client(base_model="crucible/tiny", rank=4)
    watch_queue(client, service.name, states.open())
    hosted.fault = Fault("paused", paths=FETCH, times=2)
    with states.listening(pauses.append):
        service.within("save", lambda: client.save_state("paused", ttl_seconds=3600))

    assert pauses == ["Tinker is paused: rate limit"]
    if hasattr(service.sdk, "RestClient"):  # before SDK 0.38 its end is not reported
        assert states.describe() == ""
