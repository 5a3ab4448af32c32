"""Asking a backend through its whole stack, on a loop with a virtual clock: many workers, for a time or until all is asked."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import virtual_time

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Event, Reply, Request


def adapter(name: str = "v2", **asking: Any) -> Adapter:
    return Adapter(name=name, backend="simulated", options={}, parameters={}, asking=asking)


def request(sample: str = "a", arm: str = "v2") -> Request:
    return Request(input="2 + 2", sample=sample, repeat=0, experiment="test_sums.py::test_sums", arm=arm)


@dataclass
class Run:
    """The events and outcomes of the requests."""

    replies: list[Reply] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def events_named(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]


def ask_for(seconds: float, backend: Backend, *, workers: int = 64, **asking: Any) -> Run:
    """Ask as much as can be asked in so many virtual seconds."""
    return _run(backend, workers, None, seconds, asking)


def ask_all(requests: int, backend: Backend, *, workers: int = 64, **asking: Any) -> Run:
    """Ask so much, until the last is answered or lost."""
    return _run(backend, workers, requests, None, asking)


def _run(backend: Backend, workers: int, requests: int | None, seconds: float | None, asking: Mapping[str, Any]) -> Run:
    run, left = Run(), iter(range(requests)) if requests is not None else itertools.count()
    shared = BackendContext(emit=run.events.append, limiters=Limiters(ordinary=workers))
    top = wrap_backend(backend, adapter(**asking), shared)

    async def work() -> None:
        for number in left:
            try:
                run.replies.append(await top.generate(request(str(number))))
            except Exception as error:
                run.errors.append(error)

    async def all_work() -> None:
        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(all_work())
    shared.limiters.close()
    return run
