"""The samplers of test functions, and the loop and threads that they run on."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time

import pytest

from pytest_crucible import BackendError, Reply, Request, ScriptedBackend
from pytest_crucible.records import Arm
from pytest_crucible.sample.loop import BackgroundLoop, DaemonThreads
from pytest_crucible.sample.sampler import BlockingSampler, Sampler

ARM = Arm(name="v2", role="candidate", adapter="scripted:v2", identity="b", parameters={"temperature": 0, "top_p": 1})


def sampler(script, *, latency_s: float = 0.0) -> Sampler:
    return Sampler(ScriptedBackend(script, latency_s=latency_s), ARM, "a", 2, "test_sums.py::test_sums")


def request_of(*arguments, **parameters) -> Request:
    """Return the requests to the backend when a test function calls generate."""
    calls: list[Request] = []
    asyncio.run(sampler(lambda request: calls.append(request) or "4").generate(*arguments, **parameters))
    return calls[0]


def test_a_request_has_its_sample_repeat_and_arm():
    assert request_of("2 + 2") == Request(
        input="2 + 2",
        sample="a",
        repeat=2,
        parameters=ARM.parameters,
        experiment="test_sums.py::test_sums",
        arm=ARM.name,
        unit_call=1,
    )


def test_calls_are_numbered_as_they_are_stored_and_those_of_a_trial_are_not():
    sent: list[Request] = []
    backend = ScriptedBackend(lambda request: sent.append(request) or "4")

    async def send(*, is_trial: bool) -> None:
        sampling = Sampler(backend, ARM, "a", 2, calls=[], is_trial=is_trial)
        await asyncio.gather(sampling.generate("2 + 2"), sampling.generate("3 + 3"))

    asyncio.run(send(is_trial=False))
    asyncio.run(send(is_trial=True))

    assert [request.unit_call for request in sent] == [1, 2, 0, 0]


def test_parameters_of_a_call_override_the_adapters():
    assert request_of("2 + 2", temperature=1, stop=["\n"]).parameters == {"temperature": 1, "top_p": 1, "stop": ["\n"]}


def test_a_parameter_may_be_called_input():
    assert request_of("2 + 2", input="x").parameters["input"] == "x"


def calls(inputs, *, temperatures=(None,)) -> list[int]:
    """Return the number of each request of one sampler."""
    requests: list[Request] = []
    sending = sampler(lambda request: requests.append(request) or "4")

    async def send() -> None:
        for item in inputs:
            for temperature in temperatures:
                await sending.generate(item, temperature=temperature)

    asyncio.run(send())
    return [request.call for request in requests]


def test_equal_requests_are_numbered():
    assert calls(["a", "b", "a", "a", "b"]) == [1, 1, 2, 3, 2]
    assert calls([[{"role": "user"}], ({"role": "user"},), [{"role": "system"}]]) == [1, 2, 1]


def test_requests_with_other_parameters_are_numbered_apart():
    assert calls(["a"], temperatures=(0, 1, 0)) == [1, 1, 2]


def test_a_growing_list_of_messages_is_another_request_each_time():
    messages: list[dict[str, str]] = []

    def turns():
        for turn in range(3):
            messages.append({"role": "user", "content": f"turn {turn}"})
            yield messages

    assert calls(turns()) == [1, 1, 1]


def test_requests_that_are_not_json_are_not_numbered():
    assert calls([b"x", b"x"]) == [1, 1]


def test_a_missing_latency_is_measured():
    reply = asyncio.run(sampler(lambda request: "4", latency_s=0.03).generate(""))

    assert 0.025 <= reply.latency_s < 60


def test_a_reported_latency_is_kept():
    assert asyncio.run(sampler(lambda request: Reply(text="4", latency_s=0.0)).generate("")).latency_s == 0.0


def test_a_reply_of_another_type_is_refused():
    class Careless:
        identity, simulated = "x", False

        async def generate(self, request):
            return "4"

    with pytest.raises(BackendError) as caught:
        asyncio.run(Sampler(Careless(), ARM, "a", 0).generate(""))

    assert str(caught.value) == "the backend of 'v2' returned a string: generate() must return a Reply"


def test_a_sampler_shows_its_arm():
    assert sampler(lambda request: "4").arm is ARM


# -- without await ------------------------------------------------------------------------------------------------


@pytest.fixture
def loop():
    background = BackgroundLoop()
    yield background
    background.close()


def test_a_plain_function_waits_for_its_reply(loop):
    blocking = BlockingSampler(sampler(lambda request: f"{request.input}!", latency_s=0.01), loop.loop)

    assert blocking.generate("yes", temperature=1).text == "yes!"
    assert blocking.arm is ARM


def test_a_plain_function_gets_the_error_of_its_backend(loop):
    def script(request):
        raise BackendError("no answer")

    with pytest.raises(BackendError, match="no answer"):
        BlockingSampler(sampler(script), loop.loop).generate("")


# -- the loop -----------------------------------------------------------------------------------------------------


def test_closing_is_idempotent():
    background = BackgroundLoop()
    background.close()
    background.close()

    assert background.loop.is_closed()


def test_closing_cancels_tasks_without_a_warning(caplog):
    """Warnings are errors here, and asyncio logs a task that is destroyed while it is pending."""
    caplog.set_level(logging.WARNING)
    ended = threading.Event()
    started = threading.Event()

    async def endless() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    background = BackgroundLoop()
    future = background.submit(endless())
    assert started.wait(60)
    background.close()
    del future
    gc.collect()

    assert ended.is_set()
    assert not caplog.records


def test_closing_does_not_wait_for_stubborn_tasks():
    started = threading.Event()

    async def stubborn() -> None:
        started.set()
        until = time.monotonic() + 1.3
        while time.monotonic() < until:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    background = BackgroundLoop()
    background.submit(stubborn())
    assert started.wait(60)
    before = time.monotonic()
    background.close()

    assert time.monotonic() - before < 10


# -- threads ------------------------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    pool = DaemonThreads(2)
    yield pool
    pool.shutdown()


def test_a_future_has_the_functions_error(threads):
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 1, 0).result(5)


def test_no_more_threads_are_started_than_allowed(threads):
    names = {threads.submit(lambda: time.sleep(0.002) or threading.current_thread().name) for _ in range(20)}

    assert len({future.result(60) for future in names}) <= 2


def test_cancelled_work_never_runs(threads):
    release = threading.Event()
    ran = []
    running = [threads.submit(release.wait, 5) for _ in range(2)]
    waiting = threads.submit(ran.append, 1)
    cancelled = waiting.cancel()
    release.set()
    for future in running:
        future.result(60)
    threads.submit(lambda: None).result(5)

    assert cancelled
    assert not ran


def test_threads_do_not_keep_the_process_alive(threads):
    assert threads.submit(lambda: threading.current_thread().daemon).result(5)


def test_idle_threads_end_when_the_pool_is_shut_down():
    pool = DaemonThreads(1)
    thread = pool.submit(threading.current_thread).result(5)
    pool.shutdown()
    thread.join(5)

    assert not thread.is_alive()
