"""The results of finished runs, each computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

MOST = 100
"""Runs whose results are kept: 100 kB each, and 2 MB of one with hundreds of verdicts."""
Key = tuple[str, str]


class ResultsCache:
    """Results by run, computed one after another on a thread: two large ones at once would need twice the memory."""

    def __init__(self, compute: Callable[[str], str]) -> None:
        self._compute = compute
        self._results: dict[Key, Future[str]] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="results")

    def start(self, run: str, finished: str) -> Future[str]:
        """Return the results of a run that finished at a time, perhaps not computed yet. A resumed run finishes again."""
        with self._lock:
            future = self._results.pop((run, finished), None)
            if future is None or (future.done() and future.exception() is not None):
                future = self._worker.submit(self._compute, run)
            self._results[run, finished] = future
            for key in list(self._results)[:-MOST]:
                del self._results[key]
            return future
