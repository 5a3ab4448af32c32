"""The share of a training that is matrix products, which numpy leaves to its library: the rest is what this package could save."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


class TimedArray(np.ndarray):
    """An array whose matrix products are timed, and those of all arrays computed from it."""

    seconds = 0.0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        plain = [_as_plain(value) for value in inputs]
        if out is not None:
            settings["out"] = tuple(_as_plain(value) for value in out)
        started = time.thread_time()
        result = getattr(ufunc, method)(*plain, **settings)
        if ufunc is np.matmul:
            TimedArray.seconds += time.thread_time() - started
        if out is not None:
            return out[0]
        return result.view(TimedArray) if isinstance(result, np.ndarray) else result


def _as_plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, TimedArray) else value
