"""The scripted server itself: what it promises to the tests and benchmarks that stand on it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server import OpenAIServer
from openai_server.behaviour import Behaviour, behaving, fate


@pytest.fixture(scope="module")
def started() -> Iterator[OpenAIServer]:
    with OpenAIServer.start() as server:
        yield server


@pytest.fixture
def server(started: OpenAIServer) -> OpenAIServer:
    started.reset()
    return started


def status(server: OpenAIServer, prompt: str = "2 + 2", **headers: str) -> int:
    """Return the status of one answer; 0 if there is none."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    try:
        connection.request("POST", "/v1/completions", json.dumps({"model": "m", "prompt": prompt}), headers)
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def statuses(server: OpenAIServer, prompts: int, *, at_a_time: int = 1) -> list[int]:
    with ThreadPoolExecutor(at_a_time) as threads:
        return list(threads.map(lambda k: status(server, str(k)), range(prompts)))


def wait_for_counts(server: OpenAIServer, **counts: int) -> None:
    while not counts.items() <= server.counts().items():
        time.sleep(0.002)


def test_a_behaviour_belongs_to_its_model_alone(server):
    server.behave("m", fault="500")

    assert status(server) == 500
    assert status(server, **{"x-behaviour": "fault=404"}) == 404

    server.reset()

    assert status(server) == 200


def test_everything_is_counted(server):
    server.behave("m", fault="500", fails_first=1)
    rows = [status(server, prompt) for prompt in ("a", "a", "a", "b")]
    counts = server.counts()

    assert rows == [500, 200, 200, 500]
    assert (counts["requests"], counts["distinct"], counts["repeated"], counts["answered_again"]) == (4, 2, 2, 1)
    assert (counts["statuses"], counts["faults"]) == ({"500": 2, "200": 2}, {"500": 2})


def test_faults_come_in_their_share_and_the_same_ones_again(server):
    server.behave("m", fault="500,reset,half,garbage,no_choices", fault_share=0.3, seed=1)
    first = statuses(server, 100)
    server.reset()
    server.behave("m", fault="500,reset,half,garbage,no_choices", fault_share=0.3, seed=1)
    faults = server.counts()["faults"]

    assert statuses(server, 100, at_a_time=4) == first
    assert faults == {}
    assert 15 <= sum(server.counts()["faults"].values()) <= 45


@given(st.binary(max_size=20), st.integers(1, 5))
def test_a_fate_depends_on_the_body_and_how_often_it_came(body, attempt):
    behaviour = Behaviour(latency_s=1.0, spread=0.5, tail_share=0.1, fault="500", fault_share=0.5)

    assert fate(behaviour, body, attempt) == fate(behaviour, body, attempt)
    assert fate(behaviour, body, attempt) != fate(behaviour, body, attempt + 1)


def test_one_answer_in_a_hundred_is_twenty_times_slower():
    behaviour = Behaviour(latency_s=0.05, tail_share=0.01)
    delays = [fate(behaviour, b"%d" % k, 1).delay_s for k in range(10_000)]

    assert set(delays) == {0.05, 1.0}
    assert 70 <= delays.count(1.0) <= 130


def test_requests_above_the_rate_get_429_and_all_answers_state_the_limit(server):
    server.behave("m", rate=0.01, burst=3, retry_after="0.2")
    result = statuses(server, 5)

    assert result == [200, 200, 200, 429, 429]
    assert sum(both[2] for both in server.counts()["seconds"]) == 2


def test_no_more_are_answered_at_a_time_than_there_are_slots(server):
    server.behave("m", slots=1, latency_s=0.2)
    started = time.perf_counter()

    assert statuses(server, 4, at_a_time=4) == [200] * 4
    assert time.perf_counter() - started >= 0.8
    assert server.counts()["most_concurrent"] > 1


def test_who_hangs_up_while_waiting_for_a_slot_gives_it_to_the_next(server):
    server.behave("m", slots=1, fault="hang", fault_in="first")
    address = urlsplit(server.url)
    first, impatient = (http.client.HTTPConnection(str(address.hostname), address.port) for _ in range(2))
    for number, (connection, prompt) in enumerate([(first, "first"), (impatient, "second")]):
        connection.request("POST", "/v1/completions", json.dumps({"model": "m", "prompt": prompt}))
        wait_for_counts(server, concurrent=number + 1)
    impatient.close()
    wait_for_counts(server, cancelled=1)
    first.close()

    assert status(server, "third") == 200
    assert server.counts()["cancelled"] == 2


@pytest.mark.parametrize("sentence", [{"latency": 1}, {"fault": "flood"}, {"fault": "200"}, {"slots": "many"}])
def test_a_behaviour_that_there_is_not_is_an_error(server, sentence):
    with pytest.raises(ValueError, match=r"there is no|invalid literal"):
        behaving(Behaviour(), sentence)
    with pytest.raises(ValueError, match=r"there is no|invalid literal"):
        server.behave("m", **sentence)


def test_it_ends_with_who_started_it():
    with OpenAIServer.start() as server:
        server.process.stdin.close()

        assert server.process.wait(60) == 0
