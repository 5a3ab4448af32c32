"""The limiters of a session, one per server, shared by all workers of a run, and the wrapper that waits for their permits."""

from __future__ import annotations

import asyncio
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.backends.deadlines import paused_clock
from pytest_crucible.backends.limiting.control import Control, Limits
from pytest_crucible.backends.limiting.limiter import Limiter, LimiterState, Load, Permit, ReportedLimits, total_load
from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.files import runtime_folder


@dataclass(frozen=True, slots=True)
class Workers:
    """The processes of one run on this machine."""

    run: str
    count: int


class Limiters:
    """Opens limiters on demand; `close` stops their timers and leaves the state shared with other processes."""

    def __init__(self, *, ordinary: float = math.inf, workers: Workers | None = None) -> None:
        """`ordinary` is the number of concurrent samples, over all workers."""
        self._ordinary = ordinary
        self._workers = workers
        self._limiters: dict[str, Limiter] = {}

    def of(self, server: str, limits: Limits) -> Limiter:
        """Return the limiter of a server; if several adapters set limits, the strictest count."""
        if server not in self._limiters:
            self._limiters[server] = Limiter(self._state(server, limits))
        self._limiters[server].tighten(limits)
        return self._limiters[server]

    def paused_s(self, now: float) -> float:
        """Return the longest pause in seconds that a server has asked for."""
        return max((limiter.paused_s(now) for limiter in tuple(self._limiters.values())), default=0.0)

    def load(self) -> Load:
        """Return what the rates of all servers have cost in the present experiment. Thread-safe."""
        return total_load(limiter.load() for limiter in tuple(self._limiters.values()))

    def restart_load(self) -> None:
        """Begin to count again: another experiment begins."""
        for limiter in tuple(self._limiters.values()):
            limiter.restart_load()

    def close(self) -> None:
        for limiter in self._limiters.values():
            limiter.close()
        self._limiters.clear()

    def _state(self, server: str, limits: Limits) -> LimiterState:
        if self._workers is None or self._workers.count < 2:
            return LimiterState(Control(limits, self._ordinary))
        try:
            from pytest_crucible.backends.limiting.shared_state import SharedState

            return SharedState(_path(self._workers.run, server), Control(limits, self._ordinary))
        except (ImportError, OSError):
            # Without fcntl, or without a place for the file, each worker takes its part of the limits.
            parts = self._workers.count
            return LimiterState(Control(limits.share(parts), max(1.0, self._ordinary // parts)))


def _path(run: str, server: str) -> Path:
    # Not guessable: the run's id is drawn at random, and the server's name holds a digest of the key.
    name = hashlib.sha256(f"{run} {server}".encode()).hexdigest()[:24]
    return runtime_folder() / f"limits-{name}"


# A shorter wait is not published as an event.
NOTICED_S = 0.001
# Responses between two looks at the rate limit headers, which rarely change.
READ_EVERY = 10


class Limited(Wrapper):
    """One request per permit. Waiting for a permit does not count as the sample's time."""

    def __init__(self, inner: Backend, limiter: Limiter, emit: Emit, *, reporter: Any = None) -> None:
        """`reporter` is the backend itself, whose `reported_limits` are those in the headers of its last response, if any."""
        super().__init__(inner)
        self._limiter = limiter
        self._emit = emit
        self._reporter = reporter if hasattr(reporter, "reported_limits") else None
        self._answers = 0

    async def generate(self, request: Request) -> Reply:
        permit = self._limiter.try_acquire(request.arm) or await self._wait(request)
        try:
            reply = await self.inner.generate(request)
        except BaseException as error:
            permit.release(error)
            raise
        permit.release(reply)
        if self._reporter is not None:
            self._read_limits(self._reporter)
        return reply

    def _read_limits(self, backend: Any) -> None:
        self._answers += 1
        headers: ReportedLimits | None = backend.reported_limits if self._answers % READ_EVERY == 0 else None
        if headers is not None:
            self._limiter.set_server_limits(headers)

    async def _wait(self, request: Request) -> Permit:
        started = asyncio.get_running_loop().time()
        with paused_clock():
            permit = await self._limiter.acquire(request.arm)
        waited = asyncio.get_running_loop().time() - started
        self._limiter.record_wait(waited)
        if waited > NOTICED_S:
            self._emit(Event.about("limiter.wait", request, seconds=waited))
        return permit
