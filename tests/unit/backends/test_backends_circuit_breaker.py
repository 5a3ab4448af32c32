"""A server that is down: waited for as long as a restart takes, then given up for all."""

from __future__ import annotations

import asyncio
import math
import re

import pytest
from asking import adapter, ask_all, request
from hypothesis import given
from hypothesis import strategies as st
from simulated_servers import SimulatedServer
from virtual_time import in_virtual_time

from pytest_crucible.backends.circuit_breaker import DOUBT_AFTER_S, FIRST_ANSWER_S, MAX_SILENCE_S, MIN_FAILURES, Circuit
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, Spent, Unanswered


class Restarting(SimulatedServer):
    """Takes no connection from `down_at` on for `down_s`, and breaks those that are open then."""

    down_at = 10.0
    down_s = 60.0
    failure = "connection"
    latency_s = 0.05

    def is_down(self) -> bool:
        return self.down_at <= asyncio.get_running_loop().time() < self.down_at + self.down_s

    async def generate(self, request: Request) -> Reply:
        if self.is_down():
            self.log.append((asyncio.get_running_loop().time(), False))
            raise Retryable("nothing listens there", kind=self.failure)
        reply = await super().generate(request)
        if self.is_down():
            raise Retryable("it hung up", kind=self.failure)
        return reply


@pytest.mark.parametrize("failure", ["connection", "502", "500", "half"])
@pytest.mark.parametrize("workers", [1, 64])
def test_restart_of_a_minute_loses_no_sample(failure, workers):
    server = Restarting()
    server.failure = failure
    server.latency_s = 0.05 * workers

    run = ask_all(1_000, server, workers=workers)

    assert len(run.replies) == 1_000
    assert not run.errors


def test_server_that_is_down_is_probed():
    server = Restarting()
    server.latency_s = 1.0

    ask_all(2_000, server)

    down = [at for at, answered in server.log if not answered]
    settled = [at for at in down if at > server.down_at + 5]
    assert 30 <= len(settled) <= 60


def test_full_rate_after_a_restart():
    server = Restarting()
    server.latency_s = 0.5

    ask_all(3_000, server)

    assert server.accepted_rate(73, 75) >= 0.9 * server.accepted_rate(7, 9)


@pytest.mark.slow
def test_server_that_stays_down_is_given_up():
    server = Restarting()
    server.latency_s, server.down_s = 1.0, 1e9

    run = ask_all(2_000, server)

    assert {type(error) for error in run.errors} == {Refused}
    assert server.log[-1][0] == pytest.approx(server.down_at + MAX_SILENCE_S, abs=3)
    assert re.fullmatch(
        r"server http://simulated/v1 has not answered since \d\d:\d\d:\d\d \(\d+ s, \d+ requests failed, the last: "
        r"nothing listens there\): no more requests are sent; resume with --crucible-resume when it is back",
        str(run.errors[0]),
    )


def test_server_that_never_answered_is_given_up_sooner():
    server = Restarting()
    server.down_at, server.down_s = 0.0, 1e9

    run = ask_all(1_000, server)

    assert {type(error) for error in run.errors} == {Refused}
    assert server.log[-1][0] == pytest.approx(FIRST_ANSWER_S, abs=3)
    assert re.fullmatch(
        r"server http://simulated/v1 has never answered \(\d+ s, \d+ requests failed, the last: nothing listens there\): "
        r"no more requests are sent; check its URL, and that it runs",
        str(run.errors[0]),
    )


class Choosy(SimulatedServer):
    """Never answers some samples."""

    never: frozenset[str] = frozenset()
    dies_at: float = math.inf

    async def generate(self, request: Request) -> Reply:
        now = asyncio.get_running_loop().time()
        if request.sample in self.never or now >= self.dies_at:
            self.log.append((now, True))
            await asyncio.sleep(1e9)
        return await super().generate(request)


def choosy(*never: int) -> Choosy:
    server = Choosy()
    server.never = frozenset(map(str, never))
    return server


@pytest.mark.parametrize("workers", [1, 2, 4, 64])
@pytest.mark.parametrize("never", [(38, 39), (0, 1), (7, 21), (1, 3, 5, 7, 9)], ids=["last", "first", "some", "five"])
def test_unanswered_samples_are_lost_alone(workers, never):
    run = ask_all(40, choosy(*never), workers=workers, timeout_s=30)

    assert len(run.replies) == 40 - len(never)
    assert {type(error) for error in run.errors} <= {BackendError, Unanswered}
    assert len(run.events_named("request.start")) == 40 + 5 * len(never)


@pytest.mark.parametrize("workers", [16, 64])
def test_silent_server_is_given_up(workers):
    server = choosy()
    server.dies_at = 1.0

    run = ask_all(10_000, server, workers=workers)

    assert {type(error) for error in run.errors} == {Refused}
    assert re.search(r"has not answered since", str(run.errors[0]))


@given(
    never=st.sets(st.integers(0, 59), max_size=9),
    workers=st.sampled_from([2, 8, 64]),
    timeout_s=st.sampled_from([2, 30, 120]),
)
def test_fewer_than_ten_silent_samples_never_stop_a_server_that_answers(never, workers, timeout_s):
    run = ask_all(60, choosy(*never), workers=workers, timeout_s=timeout_s, retries=2)

    assert len(run.replies) == 60 - len(never)
    assert not any(isinstance(error, Refused) for error in run.errors)


class Quota(SimulatedServer):
    """Answers a hundred requests, and refuses all others."""

    def accepts(self, now: float) -> bool:
        return len(self.log) < 100


def test_server_that_only_refuses_is_given_up():
    server = Quota()

    run = ask_all(10_000, server)

    assert Refused in {type(error) for error in run.errors}
    assert len(run.replies) == 100
    assert len([error for error in run.errors if not isinstance(error, Refused)]) <= MIN_FAILURES
    given_up = next(error for error in run.errors if isinstance(error, Refused))
    assert re.search(r"has sent no reply since \d\d:\d\d:\d\d, only errors \(", str(given_up))


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        ("429", "its limit or quota is used up: lower the adapter's limit or wait, then resume with --crucible-resume"),
        ("503", "look into its log, then resume with --crucible-resume"),
    ],
)
def test_server_with_errors_only_is_not_called_silent(failure, advice):
    server = Restarting()
    server.down_at, server.down_s, server.failure = 0.0, 1e9, failure

    run = ask_all(100, server)

    given_up = next(error for error in run.errors if isinstance(error, Refused))
    assert re.fullmatch(
        r"server http://simulated/v1 has sent no reply, only errors \(\d+ s, \d+ requests failed, the last: nothing listens "
        rf"there\): no more requests are sent; {advice}",
        str(given_up),
    )


def test_a_server_is_doubted_only_after_some_seconds_of_errors():
    circuit = Circuit("server")
    for number in range(50):
        circuit.fail(Retryable("no", kind="500"), (f"{number}",), sent_at=100.0, now=100.0 + number / 1_000)

    assert not circuit.is_doubtful(100.0 + DOUBT_AFTER_S - 0.1)
    assert circuit.is_doubtful(100.0 + DOUBT_AFTER_S + 0.1)


def test_chance_failures_do_not_stop_a_run():
    server_share = 0.3
    server = SimulatedServer()
    draws = server.draws

    async def generate(request: Request) -> Reply:
        if draws.random() < server_share:
            raise Retryable("no", kind="500")
        return Reply(text="4")

    server.generate = generate

    run = ask_all(3_000, server, retries=20)

    assert len(run.replies) == 3_000


@pytest.mark.parametrize("error", [BackendError("no such sample"), Spent("the budget is spent")])
def test_request_errors_do_not_doubt_the_server(error):
    server = SimulatedServer()

    async def generate(request: Request) -> Reply:
        raise error

    server.generate = generate

    run = ask_all(100, server)

    assert run.errors == [error] * 100


@in_virtual_time
async def test_request_waiting_for_a_server_can_be_cancelled():
    server = Restarting()
    server.down_at, server.down_s = 0.0, 1e9
    top = wrap_backend(server, adapter(), BackendContext())
    tasks = [asyncio.create_task(top.generate(request(str(number)))) for number in range(5)]
    await asyncio.sleep(10)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert asyncio.all_tasks() == {asyncio.current_task()}
