"""The deadline of one request, which is the server's, and that of a sample, which is the candidate's."""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Awaitable, Callable

import pytest
import virtual_time
from asking import adapter, request
from simulated_servers import SimulatedServer
from virtual_time import in_virtual_time

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.deadlines import DEADLINE_S, Timed, TimeLimit, paused_clock, read_timeout, set_clock
from pytest_crucible.backends.limiting.control import Limits
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Outcome, Reply, Request, Unit
from pytest_crucible.records.errors import BackendError, Retryable, SpecError
from pytest_crucible.sample.invoke import ask_async, ask_in_thread
from pytest_crucible.sample.loop import DaemonThreads


class Scripted(SimulatedServer):
    """A server of one step a request: answers after so many seconds, hangs (None), or raises."""

    steps: list[float | Exception | None]

    async def generate(self, request: Request) -> Reply:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        await asyncio.sleep(1e9 if step is None else step)
        return Reply(text="4")


def server(*steps: float | Exception | None) -> Scripted:
    scripted = Scripted()
    scripted.steps = list(steps)
    return scripted


# -- one request ----------------------------------------------------------------------------------------------------


def test_request_deadline():
    with pytest.raises(Retryable, match=r"^no answer within 2\.5 s$") as caught:
        virtual_time.run(Timed(server(None), 2.5).generate(request()))
    with pytest.raises(BackendError, match="no such sample"):
        virtual_time.run(Timed(server(BackendError("no such sample")), 2.5).generate(request()))

    assert caught.value.kind == "timeout"
    assert virtual_time.run(Timed(server(2.4), 2.5).generate(request())).text == "4"
    assert virtual_time.run(Timed(server(1e6), None).generate(request())).text == "4"


def test_servers_have_a_default_deadline():
    function = ScriptedBackend(lambda request: "4", identity="x")

    assert read_timeout(adapter(), SimulatedServer()) == DEADLINE_S
    assert read_timeout(adapter(), function) is None
    assert read_timeout(adapter(timeout_s=5), function) == 5
    assert read_timeout(adapter(timeout_s=0), SimulatedServer()) is None


@pytest.mark.parametrize("wrong", [-1, "5", True, None, float("inf"), float("nan")])
def test_invalid_timeouts_are_refused(wrong):
    with pytest.raises(
        SpecError, match=f"^adapter 'v2' has timeout_s = {re.escape(repr(wrong))}: expected the seconds"
    ):
        read_timeout(adapter(timeout_s=wrong), SimulatedServer())


# -- whose time it is -----------------------------------------------------------------------------------------------

Function = Callable[[], Awaitable[Reply]]


def run_sample(function: Function, timeout_s: float) -> Outcome:
    """Return the outcome of a sample of a test function."""

    async def ask() -> Outcome:
        outcome = Outcome(Unit(0, 0, 0, 0))
        return await ask_async(function, {}, outcome, timeout_s=timeout_s, classify=lambda error: "lost")

    return virtual_time.run(ask())


def asking(scripted: Scripted, **settings: object) -> Function:
    top = wrap_backend(scripted, adapter(**settings), BackendContext())
    return lambda: top.generate(request())


def first_answered(scripted: Scripted, **settings: object) -> Function:
    """Asks a server for another sample first."""
    top = wrap_backend(scripted, adapter(**settings), BackendContext())

    async def ask() -> Reply:
        context = contextvars.Context()  # not this sample's time
        await asyncio.create_task(top.generate(request("another")), context=context)
        return await top.generate(request())

    return ask


REFUSALS = [Retryable("too much", kind="429", retry_after_s=9.0)] * 5
ANSWERED = (None, None, "")


@pytest.mark.parametrize(
    ("ask", "timeout_s", "outcome"),
    [
        (
            first_answered(server(1.0, 12.0)),
            10,
            (None, "unanswered", "no answer in 1 attempt within the 10 s of a sample"),
        ),
        (asking(server(11.0)), 10, (None, "error", ".*")),
        (
            first_answered(server(1.0, *[None] * 3), timeout_s=9, retries=2),
            20,
            (
                None,
                "unanswered",
                r"no answer in 3 attempts, in \d\d s, from a server that answers others; the last: no .* 9 s",
            ),
        ),
        (
            # The refusal may be chance, and uses up no attempt.
            first_answered(server(1.0, None, Retryable("busy", kind="503"), None, None), timeout_s=9, retries=2),
            20,
            (None, "error", r"lost after 4 attempts in \d\d s: timeout x 3, 503 x 1; the last: no answer within 9 s"),
        ),
        # Told five times to come back in 9 s: the sample has waited for 45 s, and was answered in 8.
        (asking(server(*REFUSALS, 8.0)), 10, ANSWERED),
        (first_answered(server(1.0, *REFUSALS, 11.0)), 10, (None, "unanswered", ".*")),
        (asking(server(None, None, 8.0), timeout_s=9), 10, ANSWERED),
        (
            asking(server(*[None] * 3), timeout_s=9, retries=2),
            10,
            (None, "error", r"lost after 3 attempts in \d\d s: timeout x 3; the last: no answer within 9 s"),
        ),
        (asking(server(Retryable("no", kind="500"), 100.0)), None, ANSWERED),
    ],
    ids=[
        "no answer",
        "silent server",
        "used up",
        "mixed",
        "refusals",
        "too late after them",
        "hung",
        "all hung",
        "no deadline",
    ],
)
def test_outcome_of_a_sample_whose_server_fails(ask, timeout_s, outcome):
    failure, lost, detail = outcome
    result = run_sample(ask, timeout_s=timeout_s)

    assert (result.failure, result.lost) == (failure, lost)
    assert re.fullmatch(detail, result.detail)
    assert (result.reply is not None and result.reply.text == "4") == (outcome == ANSWERED)


def test_slow_local_model_fails_the_sample():
    backend = ScriptedBackend(lambda request: "4", identity="x", latency_s=11.0)
    top = wrap_backend(backend, adapter(), BackendContext())

    outcome = run_sample(lambda: top.generate(request()), timeout_s=10)

    assert (outcome.failure, outcome.lost) == ("timeout", None)


def test_slow_function_after_an_answer_fails_the_sample():
    ask = asking(server(4.0, None), timeout_s=0)

    async def twice() -> Reply:
        await ask()
        return await ask()

    assert run_sample(twice, timeout_s=10).failure == "timeout"


@in_virtual_time
async def test_waiting_for_a_permit_pauses_the_clock():
    limiters = Limiters()
    limiter = limiters.of("http://simulated/v1", Limits(concurrency=1))
    top = wrap_backend(server(8.0), adapter(), BackendContext(limiters=limiters))
    held = limiter.try_acquire("v1")
    asyncio.get_running_loop().call_later(1_000, held.release)
    outcome = Outcome(Unit(0, 0, 0, 0))
    outcome = await ask_async(lambda: top.generate(request()), {}, outcome, timeout_s=10, classify=lambda error: "lost")
    assert outcome.reply.text == "4"


def test_time_between_requests_counts():
    scripted = server(4.0, 4.0)
    ask = asking(scripted)

    async def twice() -> Reply:
        await ask()
        await asyncio.sleep(3)
        return await ask()

    outcome = run_sample(twice, timeout_s=10)

    assert outcome.failure == "timeout"


def test_one_waiting_request_pauses_the_clock():
    scripted = server(Retryable("too much", kind="503", retry_after_s=50.0), 1.0, 1.0)
    ask = asking(scripted)

    async def both() -> Reply:
        first, _ = await asyncio.gather(ask(), ask())
        return first

    outcome = run_sample(both, timeout_s=10)

    assert outcome.reply.text == "4"


@in_virtual_time
async def test_paused_clock_after_the_limit_has_ended():
    with TimeLimit(5) as limit:
        set_clock(limit)
    with paused_clock():
        await asyncio.sleep(60)


def test_thread_function_has_the_same_clock():
    """The test runs in real time: 0.95 s of waiting at least, where a sample has 0.9 s."""
    scripted = server(Retryable("too much", kind="429", retry_after_s=0.95), 0.01)
    top = wrap_backend(scripted, adapter(), BackendContext())

    async def work() -> Outcome:
        loop = asyncio.get_running_loop()

        def function() -> Reply:
            return asyncio.run_coroutine_threadsafe(top.generate(request()), loop).result()

        threads, outcome = DaemonThreads(1), Outcome(Unit(0, 0, 0, 0))
        try:
            return await ask_in_thread(
                function, {}, outcome, timeout_s=0.9, classify=lambda error: "lost", threads=threads
            )
        finally:
            threads.shutdown()

    outcome = asyncio.run(work())

    assert outcome.reply is not None, outcome
