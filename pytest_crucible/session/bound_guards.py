"""The fixture `guards`: guards that a test calls by name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any

import pytest

from pytest_crucible.adapters.guards import Guards
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.outcomes import Detection
from pytest_crucible.session.session import SESSION

Run = Callable[[Coroutine[Any, Any, Detection]], Detection]


class BoundGuards(Mapping[str, Callable[[str], Any]]):
    """The guards by name. Calling one returns a Detection, or in an async test an awaitable of one."""

    def __init__(self, guards: Guards, run: Run | None) -> None:
        """`run` waits for a detection; None in an async test, which awaits it."""
        self._guards = guards
        self._run = run

    def __getitem__(self, name: str) -> Callable[[str], Detection | Awaitable[Detection]]:
        try:
            guard = self._guards.open(name)
        except SpecError as error:
            # An error in the configuration must not count as a failure of the model.
            raise pytest.UsageError(str(error)) from None
        run = self._run
        return guard.detect if run is None else lambda text: run(guard.detect(text))

    def __iter__(self) -> Iterator[str]:
        return iter(self._guards.names)

    def __len__(self) -> int:
        return len(self._guards.names)


def bind_guards(request: pytest.FixtureRequest) -> BoundGuards:
    """Return the guards for one test."""
    session = request.config.stash.get(SESSION, None)
    guards = Guards(request.config.rootpath) if session is None else session.guards
    if inspect.iscoroutinefunction(request.function):
        return BoundGuards(guards, None)
    return BoundGuards(guards, asyncio.run if session is None else session.wait_for)
