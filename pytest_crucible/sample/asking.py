"""One call of the test function for one unit, and what became of it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from pytest_crucible.backends.patience import set_clock
from pytest_crucible.backends.time_limits import TimeLimit
from pytest_crucible.errors import BackendError, Refused, Spent, Uncached
from pytest_crucible.records import Failure, LostReason, Outcome, Reply, Sample, Value
from pytest_crucible.sample.threads import DaemonThreads

Judgement = Literal["failed", "skipped", "lost", "stop"]
Classify = Callable[[BaseException], Judgement]
"""Says what an exception of the test function means: its author chose pytest's words for it."""
Scores = dict[str, Value | None]
_FAILING: Mapping[str, Failure] = {"length": "truncated", "content_filter": "filtered"}
"""Ends of a reply that are the candidate's failure: what was cut or withheld is no answer to score."""


async def ask_async(
    function: Callable[..., Awaitable[Any]],
    arguments: Mapping[str, Any],
    outcome: Outcome,
    *,
    timeout_s: float | None,
    classify: Classify,
) -> Outcome:
    """Await the function under its deadline, which waiting for the world does not count against."""
    outcome.started = time.time()
    deadline = TimeLimit(timeout_s)
    try:
        async with deadline:
            set_clock(deadline)
            returned = await function(**arguments)
    except BaseException as error:
        if deadline.expired() and isinstance(error, Exception):  # whatever it made of being cut short
            return _timed_out(outcome, timeout_s)
        return _raised(outcome, error, classify)
    return _returned(outcome, returned)


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
        async with deadline:
            set_clock(deadline)
            running = threads.submit(contextvars.copy_context().run, _caught, function, arguments)
            call = asyncio.wrap_future(running)
            await asyncio.wait((call,))
    except TimeoutError:
        if not running.cancel():
            threads.leave_one()
        return _timed_out(outcome, timeout_s)
    finally:
        call.cancel()  # of an answer that nobody waits for any more, the loop need not hear
    returned, error = call.result()
    return _returned(outcome, returned) if error is None else _raised(outcome, error, classify)


def _caught(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
    """A thread must not raise: pytest's own outcomes are not Exceptions and would kill the worker."""
    try:
        return function(**arguments), None
    except BaseException as error:
        return None, error


def _returned(outcome: Outcome, returned: Any) -> Outcome:
    if isinstance(returned, Reply):
        outcome.reply = returned
        outcome.failure = _FAILING.get(returned.finish)
    elif inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        outcome.lost, outcome.detail = (
            "error",
            "the test returned something to await: return await sampler.generate(...)",
        )
    elif returned is not None:
        outcome.reply = Reply(text=returned if isinstance(returned, str) else repr(returned), value=returned)
    return outcome


def _timed_out(outcome: Outcome, timeout_s: float | None) -> Outcome:
    outcome.failure = "timeout"
    outcome.scores = dict(outcome.scores)  # a thread that is left behind must not score any more
    outcome.detail = f"no answer within {timeout_s or 0:g} s"
    return outcome


def _raised(outcome: Outcome, error: BaseException, classify: Classify) -> Outcome:
    judgement = _judgement(error, classify)
    if judgement == "stop":
        raise error
    if judgement == "skipped":
        outcome.skipped, outcome.detail = True, str(error)
    elif judgement == "failed":
        outcome.failure, outcome.detail = "assertion", _last_line(error)
    else:
        outcome.lost, outcome.detail = lost_reason(error), _story(error)
    return outcome


def _judgement(error: BaseException, classify: Classify) -> Judgement:
    if isinstance(error, Refused):
        return "stop"
    if isinstance(error, asyncio.CancelledError):
        # Passed on when it is meant for this unit. One that the function raised itself would end the worker without a word.
        task = asyncio.current_task()
        return "stop" if task is not None and task.cancelling() else "lost"
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return "lost"  # the function's own: on this thread it would end the loop, and the session would wait for ever
    return classify(error)


def lost_reason(error: BaseException) -> LostReason:
    """What a sample is lost by, when that is what an exception means."""
    if isinstance(error, Uncached):
        return "uncached"
    return "budget" if isinstance(error, Spent) else "error"


def _last_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _story(error: BaseException) -> str:
    """A backend's own sentence is enough; for anything else the traceback is kept."""
    if isinstance(error, BackendError):
        return str(error)
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {error}\n{''.join(lines)}"


def needs_reply(outcome: Outcome, sample: Sample, name: str) -> Outcome:
    """A function with metrics that returns nothing has lost its reply: most likely a `return` is missing."""
    if outcome.reply is None and not (outcome.failure or outcome.skipped or outcome.lost):
        outcome.lost = "error"
        outcome.detail = f"{name} returned None for sample {sample.id!r}, but its metrics need a reply: return it"
    return outcome
