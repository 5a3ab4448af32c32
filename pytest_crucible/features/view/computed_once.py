"""Values that take long to compute: each is computed once, also where several pages wait for it, and the last few stay."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 8
"""Values that stay: of a run with 100,000 samples one takes some ten MB."""


class ComputedOnce:
    """The last values that were computed, by their keys. Any thread may use it."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of a key, which the first caller computes. What `compute` raises is raised, and computed again."""
        with self._lock:
            future: Future[T] | None = self._values.get(key)
            is_first = future is None
            if future is None:
                future = self._values[key] = Future()
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        if is_first:
            self._compute(key, future, compute)
        return future.result()

    def _compute(self, key: Hashable, future: Future[T], compute: Callable[[], T]) -> None:
        try:
            future.set_result(compute())
        except BaseException as error:
            with self._lock:
                self._values.pop(key, None)
            future.set_exception(error)
