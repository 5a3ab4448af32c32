"""Which requests of a sampler are done: a client that waits for many asks this once, instead of once for each.

Each completion has a number. A client says up to which it has seen them, and is told those after it; what it has seen is
forgotten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST = 20_000
"""Completions that are kept for a client that never asks."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One request that is done, and how large its result is; None when it failed."""

    number: int
    request_id: str
    size: int | None


@dataclass(slots=True)
class _Log:
    """What one sampler has done."""

    last: int = 0
    done: deque[Completion] = field(default_factory=lambda: deque(maxlen=MOST))
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Completions:
    """Logs by sampler."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def note(self, sampler: str, request_id: str, size: int | None) -> None:
        """A request is done."""
        log = self._log(sampler)
        log.last += 1
        log.done.append(Completion(log.last, request_id, size))
        log.changed.set()

    async def after(self, sampler: str, seen: int, patience_s: float) -> tuple[Sequence[Completion], int]:
        """Completions after the last one that was seen, once there are any or patience is over; and the last number."""
        log = self._log(sampler)
        while log.done and log.done[0].number <= seen:
            log.done.popleft()
        if not log.done and patience_s > 0:
            log.changed.clear()
            waiting = asyncio.ensure_future(log.changed.wait())
            await asyncio.wait((waiting,), timeout=patience_s)
            waiting.cancel()
        return tuple(log.done), log.done[-1].number if log.done else max(seen, 0)

    def forget(self, start: str) -> None:
        """Samplers whose names begin so are no more."""
        for sampler in [one for one in self._logs if one.startswith(start)]:
            del self._logs[sampler]

    def _log(self, sampler: str) -> _Log:
        return self._logs.setdefault(sampler, _Log())
