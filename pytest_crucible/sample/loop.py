"""The background loop of a session, and threads for test functions that are not async."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class BackgroundLoop:
    """An event loop in a daemon thread, started at once and closed by `close`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.on_close: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Awaited before the loop is closed."""
        self._thread = threading.Thread(target=self._run, name="crucible-loop", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run a coroutine on the loop. Its result or exception is in the future."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        """Stop the loop and release it. Idempotent."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)
        if not self._thread.is_alive():
            self.loop.run_until_complete(self._settle())
            self.loop.close()

    async def _settle(self) -> None:
        """Close what runs on the loop, and cancel pending tasks. Those that ignore it are left after a second."""
        for close in self.on_close:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(close(), timeout=1)
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending, timeout=1)
        await self.loop.shutdown_asyncgens()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class DaemonThreads(Executor):
    """An executor of up to `most` daemon threads, started when they are needed and none is idle."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
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
