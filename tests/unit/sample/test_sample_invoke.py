"""Outcomes of calls of the test function: replies, failures, losses and deadlines."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from pytest_crucible import BackendError, Refused, Reply, Sample, StoreError
from pytest_crucible.records import Outcome, Unit
from pytest_crucible.sample.invoke import ask_async, ask_in_thread, needs_reply
from pytest_crucible.sample.loop import DaemonThreads
from pytest_crucible.sample.sampler import ReplyStream


class Skip(BaseException):
    """Stands for pytest.skip, which is no Exception."""


def classify(error: BaseException) -> str:
    if isinstance(error, Skip):
        return "skipped"
    if isinstance(error, AssertionError):
        return "failed"
    return "stop" if isinstance(error, StoreError) else "lost"


def invoke(function, *, timeout_s: float | None = 60.0, **arguments) -> Outcome:
    """Ask an async function, or a plain one in a thread."""
    outcome = Outcome(Unit(0, 0, 0, 0))
    if asyncio.iscoroutinefunction(function):
        return asyncio.run(ask_async(function, arguments, outcome, timeout_s=timeout_s, classify=classify))
    threads = DaemonThreads(1)
    try:
        return asyncio.run(
            ask_in_thread(function, arguments, outcome, timeout_s=timeout_s, classify=classify, threads=threads)
        )
    finally:
        threads.shutdown()


async def in_thread(
    function, threads: DaemonThreads, *, timeout_s: float = 60.0, outcome: Outcome | None = None
) -> Outcome:
    outcome = outcome or Outcome(Unit(0, 0, 0, 0))
    return await ask_in_thread(function, {}, outcome, timeout_s=timeout_s, classify=classify, threads=threads)


def doing(action, style: str):
    """A test function of either style that does something."""

    def plain(**arguments):
        return action(**arguments)

    async def coroutine(**arguments):
        return action(**arguments)

    return coroutine if style == "async" else plain


def throw(error: BaseException):
    def action():
        raise error

    return action


@pytest.fixture(params=["async", "def"])
def style(request) -> str:
    return request.param


# -- what is returned ---------------------------------------------------------------------------------------------


def test_a_reply_is_the_reply(style):
    reply = Reply(text="4", output_tokens=1)

    assert invoke(doing(lambda: reply, style)).reply is reply


@pytest.mark.parametrize(
    ("value", "text"), [("4", "4"), (4, "4"), (["a"], "['a']"), ({"x": None}, "{'x': None}"), (False, "False")]
)
def test_another_value_becomes_a_reply(style, value, text):
    assert invoke(doing(lambda: value, style)).reply == Reply(text=text, value=value)


def test_a_stream_in_place_of_its_reply_loses_the_sample(style):
    outcome = invoke(doing(lambda: ReplyStream(lambda open_stream: None), style))

    sentence = "the test returned a stream: return its reply, after the last piece"
    assert (outcome.lost, outcome.detail) == ("error", sentence)


def test_none_is_no_reply_and_no_failure(style):
    outcome = invoke(doing(lambda: None, style))

    assert (outcome.reply, outcome.failure, outcome.lost, outcome.skipped) == (None, None, None, False)


def test_a_reply_that_was_cut_at_max_tokens_is_a_failure(style):
    outcome = invoke(doing(lambda: Reply(text="4", finish="length"), style))

    assert (outcome.failure, outcome.reply) == ("truncated", Reply(text="4", finish="length"))


def test_arguments_are_passed(style):
    assert invoke(doing(lambda sample, factor: sample * factor, style), sample=2, factor=3).reply.value == 6


def test_the_start_of_a_call_is_recorded(style):
    before = time.time()

    assert before <= invoke(doing(lambda: "4", style)).started <= time.time()


# -- what is raised -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (AssertionError("4 != 5\nmore"), "4 != 5"),
        (AssertionError(), "AssertionError"),
        (AssertionError("\n  \n"), "AssertionError"),
    ],
    ids=["message", "nothing", "blank"],
)
def test_an_assertion_is_the_candidates_failure(style, error, detail):
    outcome = invoke(doing(throw(error), style))

    assert (outcome.failure, outcome.detail, outcome.lost) == ("assertion", detail, None)


def test_a_skip_is_kept_with_its_reason(style):
    outcome = invoke(doing(throw(Skip("needs a picture")), style))

    assert (outcome.skipped, outcome.detail, outcome.failure) == (True, "needs a picture", None)


def test_any_other_exception_loses_the_sample_with_its_traceback(style):
    outcome = invoke(doing(throw(KeyError("label")), style))

    assert (outcome.lost, outcome.failure) == ("error", None)
    assert outcome.detail.startswith("KeyError: 'label'\nTraceback (most recent call last):\n")
    assert "raise error" in outcome.detail


def test_a_backend_error_has_no_traceback(style):
    outcome = invoke(doing(throw(BackendError("v2 has no reply to sample 'a'")), style))

    assert (outcome.lost, outcome.detail) == ("error", "v2 has no reply to sample 'a'")


@pytest.mark.parametrize("error", [Refused("no such model"), StoreError("disk full")], ids=["refused", "store"])
def test_refusals_and_store_errors_stop_the_run(style, error):
    with pytest.raises(type(error), match=str(error)):
        invoke(doing(throw(error), style))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
def test_an_exception_that_would_end_the_loop_loses_the_sample(style, error):
    outcome = invoke(doing(throw(error), style))

    assert outcome.lost == "error"
    assert outcome.detail.startswith(type(error).__name__)


# -- deadlines ----------------------------------------------------------------------------------------------------


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set when the test is over, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


def test_an_async_function_that_takes_too_long_is_a_failure():
    ended = []

    async def slow():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    outcome = invoke(slow, timeout_s=0.02)

    assert (outcome.failure, outcome.detail, outcome.lost) == ("timeout", "no answer within 0.02 s", None)
    assert ended


def test_a_plain_function_that_takes_too_long_is_left_behind(released):
    started = time.perf_counter()

    outcome = invoke(lambda: released.wait(60), timeout_s=0.02)

    assert (outcome.failure, outcome.detail) == ("timeout", "no answer within 0.02 s")
    assert time.perf_counter() - started < 30


def test_a_late_function_cannot_score(released):
    """Scores from before the deadline are kept."""
    outcome, has_begun, late = Outcome(Unit(0, 0, 0, 0)), threading.Event(), threading.Event()
    scores = outcome.scores

    def slow():
        scores["steps"] = 1.0
        has_begun.set()
        released.wait(60)
        scores["right"] = True
        late.set()

    async def exceed_the_deadline() -> None:
        calling = asyncio.create_task(in_thread(slow, threads, timeout_s=0.02, outcome=outcome))
        await asyncio.sleep(0)
        # The loop stands still: the deadline cannot end before the thread has begun.
        assert has_begun.wait(60)
        await calling

    threads = DaemonThreads(1)
    asyncio.run(exceed_the_deadline())
    threads.shutdown()
    released.set()

    assert late.wait(60)
    assert outcome.scores == {"steps": 1.0}


def test_an_error_after_the_deadline_is_a_timeout():
    async def slow():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise RuntimeError("connection closed") from None

    assert invoke(slow, timeout_s=0.02).failure == "timeout"


def test_a_timeout_error_of_the_function_itself_loses_the_sample(style):
    outcome = invoke(doing(throw(TimeoutError("no connection")), style))

    assert (outcome.failure, outcome.lost) == (None, "error")


def test_a_shorter_deadline_of_the_function_itself_loses_the_sample():
    async def impatient():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    outcome = invoke(impatient)

    assert (outcome.failure, outcome.lost) == (None, "error")


def test_a_function_without_a_deadline_ends(style):
    assert invoke(doing(lambda: time.sleep(0.05) or "4", style), timeout_s=None).reply.text == "4"


def test_a_hanging_function_frees_its_thread(released):
    """There is one thread: the second call must not time out because the first one never ends."""

    async def in_turn() -> tuple[Outcome, Outcome]:
        threads = DaemonThreads(1)
        first = await in_thread(lambda: released.wait(60), threads, timeout_s=0.02)
        second = await in_thread(lambda: "4", threads)
        threads.shutdown()
        return first, second

    first, second = asyncio.run(in_turn())

    assert first.failure == "timeout"
    assert second.reply == Reply(text="4", value="4")


def test_a_call_that_is_cancelled_is_cancelled_and_not_lost(style, released):
    """Ctrl-C: the outcome of a unit in flight is unknown, not lost."""

    async def hanging():
        await asyncio.sleep(60)

    async def interrupt() -> Outcome:
        outcome, threads = Outcome(Unit(0, 0, 0, 0)), DaemonThreads(1)
        if style == "async":
            call = ask_async(hanging, {}, outcome, timeout_s=5, classify=classify)
        else:
            call = in_thread(lambda: released.wait(60), threads, outcome=outcome)
        asking = asyncio.create_task(call)
        await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        threads.shutdown()
        return outcome

    assert asyncio.run(interrupt()).lost is None


def test_calls_in_threads_run_concurrently():
    barrier = threading.Barrier(3, timeout=60)

    async def three() -> list[Outcome]:
        threads = DaemonThreads(3)
        outcomes = await asyncio.gather(*(in_thread(barrier.wait, threads) for _ in range(3)))
        threads.shutdown()
        return outcomes

    assert sorted(entry.reply.value for entry in asyncio.run(three())) == [0, 1, 2]


# -- a missing reply ----------------------------------------------------------------------------------------------

SAMPLE = Sample(id="a", input=1)


def test_metrics_without_a_reply_lose_the_sample():
    outcome = needs_reply(Outcome(Unit(0, 0, 0, 0)), SAMPLE, "test_sums")

    assert (outcome.lost, outcome.detail) == (
        "error",
        "test_sums returned None for sample 'a', but its metrics need a reply: return it",
    )


@pytest.mark.parametrize(
    "fields",
    [{"reply": Reply(text="4")}, {"failure": "assertion"}, {"skipped": True}, {"lost": "error"}],
    ids=["reply", "failed", "skipped", "lost"],
)
def test_other_outcomes_do_not_change(fields):
    assert needs_reply(Outcome(Unit(0, 0, 0, 0), **fields), SAMPLE, "test_sums") == Outcome(Unit(0, 0, 0, 0), **fields)
