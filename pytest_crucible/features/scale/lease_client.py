"""Exchanges what a worker reports for what it may use, a few times a second, in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

# A call of a named actor takes about a millisecond: with 64 workers, a quarter of a core.
PERIOD_S = 0.2
# The shortest time between two exchanges, when something is urgent.
GAP_S = 0.02

Reports = Mapping[str, Any]
"""What a worker reports, by the name of the part: a server or a budget."""
Exchange = Callable[[Reports], Mapping[str, Any]]
"""Sends reports and returns the answers to them. May raise any error: then the same reports are sent again."""


class Part(Protocol):
    """A server's limits or a budget, as one worker uses it."""

    def report(self) -> Any:
        """Return what is to be sent. After an exchange that failed it is called again, and must lose nothing."""

    def apply(self, answer: Any, before: float) -> None:
        """Use an answer; `before` is the time before the report was sent, in seconds of `time.monotonic`."""


class LeaseClient:
    """The parts of one worker and the thread that exchanges their reports. The thread starts with the first part."""

    def __init__(self, exchange: Exchange, wait_for_news: Callable[[int], int]) -> None:
        """`wait_for_news` returns another number than it gets as soon as all workers should exchange, or after a while."""
        self._exchange, self._wait_for_news = exchange, wait_for_news
        self._parts: dict[str, Part] = {}
        self._changed, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, name: str, part: Part) -> None:
        with self._lock:
            self._parts[name] = part
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="crucible-leases", daemon=True)
                self._thread.start()
                if self._wait_for_news is not None:
                    threading.Thread(
                        target=self._watch, args=(self._thread,), name="crucible-news", daemon=True
                    ).start()
        self.wake()

    def wake(self) -> None:
        """Exchange soon, and not only after the period."""
        self._changed.set()

    def flush(self) -> None:
        """Exchange now. Raises the error of the exchange."""
        with self._lock:
            parts, before = dict(self._parts), time.monotonic()
            if not parts:
                return
            answers = self._exchange({name: part.report() for name, part in parts.items()})
            for name, part in parts.items():
                part.apply(answers[name], before)

    def remove(self, name: str) -> None:
        """Send the last report of a part, and end the thread with the last one."""
        self._try_flush()
        with self._lock:
            self._parts.pop(name, None)
            thread = None if self._parts else self._thread
            if thread is not None:
                self._thread = None
        if thread is not None:
            self.wake()
            thread.join()

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            self._changed.wait(PERIOD_S)
            self._changed.clear()
            self._try_flush()
            time.sleep(GAP_S)

    def _watch(self, thread: threading.Thread) -> None:
        version = 0
        while self._thread is thread:
            try:
                version = self._wait_for_news(version)
            except Exception:
                time.sleep(PERIOD_S)  # without news, there is the period
            self.wake()

    def _try_flush(self) -> None:
        # The leases end if it goes on; a run without its driver is ended by the cluster.
        with contextlib.suppress(Exception):
            self.flush()
