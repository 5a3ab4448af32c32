"""Finished requests of each sampler: a client that waits for many polls once for all of them.

Completions are numbered. A client sends the last number that it has received and gets the later ones; earlier ones are
dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

# Completions that are kept for a client that never polls.
MAX_COMPLETIONS = 20_000


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request, and the size of its result; None if it failed."""

    number: int
    request_id: str
    size: int | None


@dataclass(slots=True)
class _Log:
    """The finished requests of one sampler, and an event for the next one."""

    last: int = 0
    done: deque[Completion] = field(default_factory=lambda: deque(maxlen=MAX_COMPLETIONS))
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Completions:
    """The finished requests of each sampler, which its client polls."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def record(self, sampler: str, request_id: str, size: int | None) -> None:
        """Record that a request has finished."""
        log = self._log(sampler)
        log.last += 1
        log.done.append(Completion(log.last, request_id, size))
        log.changed.set()

    async def after(self, sampler: str, last_seen: int, patience_s: float) -> tuple[Sequence[Completion], int]:
        """Return completions after `last_seen`, and the last number. Waits up to `patience_s` for the first one."""
        log = self._log(sampler)
        # What the client has received is not sent again.
        while log.done and log.done[0].number <= last_seen:
            log.done.popleft()
        if not log.done and patience_s > 0:
            log.changed.clear()
            waiting = asyncio.ensure_future(log.changed.wait())
            await asyncio.wait((waiting,), timeout=patience_s)
            waiting.cancel()
        return tuple(log.done), log.done[-1].number if log.done else max(last_seen, 0)

    def forget(self, start: str) -> None:
        """Drop the samplers whose names begin like this."""
        for sampler in [name for name in self._logs if name.startswith(start)]:
            del self._logs[sampler]

    def _log(self, sampler: str) -> _Log:
        return self._logs.setdefault(sampler, _Log())
