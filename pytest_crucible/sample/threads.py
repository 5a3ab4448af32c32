"""Threads for test functions that are not async. Daemons: one that hangs must not keep the process alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class DaemonThreads(Executor):
    """An executor of up to `most` daemon threads, started when they are needed and none is idle."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in some thread."""
        future: Future[Any] = Future()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._run, name=f"crucible-{self._started}", daemon=True).start()
        return future

    def leave_one(self) -> None:
        """Allow one more thread, to replace one in which a function hangs."""
        self._most += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let idle threads end. A hanging one is left behind, even if `wait` is true."""
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:
                    self._become_idle()
                    future.set_exception(error)
                else:
                    # Before the result is known: the next call is submitted at once, and needs no further thread.
                    self._become_idle()
                    future.set_result(result)

    def _become_idle(self) -> None:
        # A thread that continues with queued work is not idle.
        if self._work.empty():
            self._idle.release()
