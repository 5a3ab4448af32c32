"""A function of the user's own as a guard: from a text to a bool, a score or a Detection."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
from collections.abc import Callable
from typing import Any

from pytest_crucible.guards.guard import ScoredText
from pytest_crucible.guards.kinds import GuardContext
from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.records.detections import Detection
from pytest_crucible.records.errors import BackendError
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.object_reference import import_function


class FunctionGuard:
    """Calls a function, in a thread where it is not async: it may block."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function
        self.identity = "function " + hashlib.sha256("\n".join(sources(function)).encode()).hexdigest()

    async def score(self, text: str) -> ScoredText:
        """Raises BackendError for anything but a bool, a number from 0 to 1 or a Detection."""
        if inspect.iscoroutinefunction(self._function):
            return _as_score(await self._function(text))
        return _as_score(await asyncio.to_thread(self._function, text))


def open_function(settings: GuardSettings, context: GuardContext) -> FunctionGuard:
    """Return the guard of a "module:function". Raises SpecError if it cannot be imported."""
    return FunctionGuard(import_function(f"{settings.place} has kind", settings.kind))


def _as_score(value: Any) -> ScoredText:
    if isinstance(value, Detection):
        score, category, spans = value.score, value.category, value.spans
    elif isinstance(value, bool):
        score, category, spans = float(value), "", ()
    else:
        score, category, spans = value, "", ()
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not math.isfinite(score) or not 0 <= score <= 1:
        raise BackendError(f"it returned {value!r:.60}: expected a bool, a number from 0 to 1, or a Detection")
    return ScoredText(float(score), category, tuple(spans))
