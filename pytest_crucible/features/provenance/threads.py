"""Lets threads that a sample starts record for that sample.

A task inherits the context variables of the task that starts it; a thread does not, before Python 3.14. While a session samples,
`threading.Thread.start` and `ThreadPoolExecutor.submit` are therefore replaced, as OpenTelemetry's threading instrumentation does,
by functions that carry the reply and its stage along, and nothing else. Only where `pytest_crucible.trace` was imported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from pytest_crucible.metrics.models.scorers import (
    ScoredReply,
    current_reply,
    reset_scored_reply,
    set_scored_reply,
)

Stage = tuple[object, str]
STAGE: ContextVar[Stage] = ContextVar("crucible_stage", default=(None, ""))
"""The events of the reply, and the stages around them as `outer/inner`."""

_START, _SUBMIT = threading.Thread.start, ThreadPoolExecutor.submit
_NO_REPLY = ScoredReply()


class _Carried:
    """A function that runs with the reply and the stage of the place where this object was made."""

    __slots__ = ("_function", "_reply", "_stage")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._reply, self._stage = function, current_reply(), STAGE.get()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        reply, stage = set_scored_reply(self._reply), STAGE.set(self._stage)
        try:
            return self._function(*args, **kwargs)
        finally:
            STAGE.reset(stage)
            reset_scored_reply(reply)


def carry_replies() -> None:
    """Let new threads and calls in pools belong to the reply that starts them, until `stop_carrying`."""
    if threading.Thread.start is _START and ThreadPoolExecutor.submit is _SUBMIT:
        threading.Thread.start = _start  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign, assignment]


def stop_carrying() -> None:
    """Restore what `carry_replies` has replaced, unless another tool has replaced it since."""
    if threading.Thread.start is _start:
        threading.Thread.start = _START  # type: ignore[method-assign]
    if ThreadPoolExecutor.submit is _submit:
        ThreadPoolExecutor.submit = _SUBMIT  # type: ignore[method-assign]


def _start(thread: threading.Thread) -> None:
    # Threads of multiprocessing's ThreadPool serve many callers: they belong to none.
    if current_reply().feature_rows is not None and type(thread).__module__ != "multiprocessing.dummy":
        thread.run = _Carried(thread.run)  # type: ignore[method-assign]
    _START(thread)


def _submit(pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    carried = _Carried(function)
    # A thread that the pool starts now serves later calls, too: it belongs to no reply.
    reply = set_scored_reply(_NO_REPLY)
    try:
        return _SUBMIT(pool, carried, *args, **kwargs)
    finally:
        reset_scored_reply(reply)
