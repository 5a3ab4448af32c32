"""Calls the test function for one unit and records its outcome."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from pytest_crucible.backends.deadlines import SampleClock, TimeLimit, set_clock
from pytest_crucible.records import Failure, LostReason, Outcome, Reply, Sample, Value
from pytest_crucible.records.errors import BackendError, Refused, Spent, Unanswered, Uncached
from pytest_crucible.sample.loop import DaemonThreads
from pytest_crucible.sample.sampler import BlockingReplyStream, ReplyStream
from pytest_crucible.stats.number_format import quantity

Judgement = Literal["failed", "skipped", "lost", "stop"]
# Returns the meaning of an exception that the test function raised, such as pytest.skip.
Classify = Callable[[BaseException], Judgement]
Scores = dict[str, Value | None]
# Ends of a reply that are the candidate's failure: a reply that was cut or withheld cannot be scored.
_FAILING: Mapping[str, Failure] = {"length": "truncated", "content_filter": "filtered"}


async def ask_async(
    function: Callable[..., Awaitable[Any]],
    arguments: Mapping[str, Any],
    outcome: Outcome,
    *,
    timeout_s: float | None,
    classify: Classify,
) -> Outcome:
    """Await the function under its deadline. Time that it waits for rate limits or retries does not count."""
    outcome.started = time.time()
    deadline = TimeLimit(timeout_s)
    try:
        with deadline:
            clock = set_clock(deadline)
            returned = await function(**arguments)
    except BaseException as error:
        # Whatever the function raised when it was cancelled.
        if deadline.has_expired and isinstance(error, Exception):
            return _timed_out(outcome, timeout_s, clock)
        return _record_exception(outcome, error, classify)
    return _record_return(outcome, returned)


async def ask_in_thread(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    outcome: Outcome,
    *,
    timeout_s: float | None,
    classify: Classify,
    threads: DaemonThreads,
) -> Outcome:
    """Call a plain function in a thread. One that exceeds its deadline is left behind: threads cannot be killed."""
    outcome.started = time.time()
    deadline = TimeLimit(timeout_s)
    try:
        with deadline:
            clock = set_clock(deadline)
            running = threads.submit(contextvars.copy_context().run, _call_safely, function, arguments)
            call = asyncio.wrap_future(running)
            await asyncio.wait((call,))
    except TimeoutError:
        if not running.cancel():
            threads.leave_one()
        return _timed_out(outcome, timeout_s, clock)
    finally:
        # The loop need not handle a result that no task waits for any more.
        call.cancel()
    returned, error = call.result()
    return _record_return(outcome, returned) if error is None else _record_exception(outcome, error, classify)


def _call_safely(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
    """Return the function's result or exception. pytest's outcomes are not Exceptions: raised, they would end the thread."""
    try:
        return function(**arguments), None
    except BaseException as error:
        return None, error


def _record_return(outcome: Outcome, returned: Any) -> Outcome:
    if isinstance(returned, Reply):
        outcome.reply = returned
        outcome.failure = _FAILING.get(returned.finish)
    elif inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        _lose(outcome, "the test returned something to await: return await sampler.generate(...)")
    elif inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        _lose(outcome, "the test returned a generator, which has run nothing: return a reply")
    elif isinstance(returned, ReplyStream | BlockingReplyStream):
        _lose(outcome, "the test returned a stream: return its reply, after the last piece")
    elif returned is not None:
        outcome.reply = Reply(text=returned if isinstance(returned, str) else repr(returned), value=returned)
    return outcome


def _timed_out(outcome: Outcome, timeout_s: float | None, clock: SampleClock) -> Outcome:
    """Record a sample that exceeded its deadline: lost if its server has answered it nothing, else failed."""
    outcome.detach()
    outcome.detail = f"no answer within {timeout_s or 0:g} s"
    if clock.server is None or clock.is_answered:
        outcome.failure = "timeout"
        return outcome
    outcome.detail = f"no answer in {quantity(clock.attempts, 'attempt')} within the {timeout_s or 0:g} s of a sample"
    outcome.lost = "unanswered" if clock.server.has_answered else "error"
    return outcome


def _record_exception(outcome: Outcome, error: BaseException, classify: Classify) -> Outcome:
    judgement = _judgement(error, classify)
    if judgement == "stop":
        raise error
    if judgement == "skipped":
        outcome.skipped, outcome.detail = True, str(error)
    elif judgement == "failed":
        outcome.failure, outcome.detail = "assertion", _first_line(error)
    else:
        outcome.lost, outcome.detail = lost_reason(error), _failure_detail(error)
    return outcome


def _first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, with its type unless it is one of an assertion."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    is_message = (
        not isinstance(error, Exception) or isinstance(error, AssertionError) or first_line == type(error).__name__
    )
    return first_line if is_message else f"{type(error).__name__}: {first_line}"


def _judgement(error: BaseException, classify: Classify) -> Judgement:
    if isinstance(error, Refused):
        return "stop"
    if isinstance(error, asyncio.CancelledError):
        # Raised again when this unit is being cancelled. One that the function raised itself would silently end the worker.
        task = asyncio.current_task()
        return "stop" if task is not None and task.cancelling() else "lost"
    if isinstance(error, SystemExit | KeyboardInterrupt):
        # Raised by the function: on this thread it would end the loop, and the session would hang.
        return "lost"
    return classify(error)


def lost_reason(error: BaseException) -> LostReason:
    """Return the reason of a sample that this exception lost."""
    if isinstance(error, Uncached):
        return "uncached"
    if isinstance(error, Unanswered):
        return "unanswered"
    return "budget" if isinstance(error, Spent) else "error"


def _failure_detail(error: BaseException) -> str:
    """Return a backend's own sentence, or the traceback of any other exception."""
    if isinstance(error, BackendError):
        return str(error)
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {error}\n{''.join(lines)}"


def needs_reply(outcome: Outcome, sample: Sample, name: str) -> Outcome:
    """Lose the unit of a function that has metrics and returned None: most likely a `return` is missing."""
    if outcome.reply is None and not (outcome.failure or outcome.skipped or outcome.lost):
        _lose(outcome, f"{name} returned None for sample {sample.id!r:.200}, but its metrics need a reply: return it")
    return outcome


def _lose(outcome: Outcome, detail: str) -> None:
    outcome.lost, outcome.detail = "error", detail
