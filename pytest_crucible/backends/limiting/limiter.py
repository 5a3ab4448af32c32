"""The limiters of a session, one per server: each issues permits, at once or in order, and learns from how requests end."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pytest_crucible.backends.deadlines import paused_clock
from pytest_crucible.backends.limiting.control import Control, LimiterState, Limits, Sent
from pytest_crucible.backends.limiting.history import (
    Load,
    RefusalHistory,
    ReportedLimits,
    certain_rate,
    describe_limit,
    total_load,
)
from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import REFUSALS, Retryable
from pytest_crucible.records.files import runtime_folder

Waiter = TypeVar("Waiter")


class RoundRobin(Generic[Waiter]):
    """Keeps an arm with many requests from delaying the arm that it is compared with.

    >>> queue = RoundRobin()
    >>> for arm, waiter in [("v2", "a"), ("v2", "b"), ("v1", "c")]:
    ...     queue.add(arm, waiter)
    >>> [queue.next() for _ in range(3)]
    ['a', 'c', 'b']
    """

    __slots__ = ("_arms",)

    def __init__(self) -> None:
        self._arms: dict[str, deque[Waiter]] = {}

    def __bool__(self) -> bool:
        return bool(self._arms)

    def add(self, arm: str, waiter: Waiter) -> None:
        self._arms.setdefault(arm, deque()).append(waiter)

    def next(self) -> Waiter:
        """Remove and return the next waiter. Raises StopIteration if the queue is empty."""
        arm = next(iter(self._arms))
        waiting = self._arms.pop(arm)
        waiter = waiting.popleft()
        if waiting:
            # Put last: the arm has had its turn.
            self._arms[arm] = waiting
        return waiter

    def remove(self, arm: str, waiter: Waiter) -> None:
        """Remove a waiter that gave up, if it is still queued."""
        waiting = self._arms.get(arm, deque())
        if waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._arms[arm]


# A request in flight for longer will not be refused: servers refuse at once, but models take their time to answer.
REFUSAL_S = 1.0


class Limiter:
    """Limiter of one server. All calls come from the thread of one running loop; it starts no tasks."""

    def __init__(self, state: LimiterState) -> None:
        self._state = state
        self._waiting: RoundRobin[asyncio.Future[Permit]] = RoundRobin()
        self._recent: deque[Sent] = deque()
        """Requests that may still be refused, oldest first."""
        self._history = RefusalHistory()
        self._load = Load()
        self._timer: asyncio.TimerHandle | None = None
        self._server_limits: tuple[float | None, float | None] = (None, None)

    def try_acquire(self, arm: str) -> Permit | None:
        if self._waiting:
            return None
        now = asyncio.get_running_loop().time()
        with self._state as control:
            self._accept_old(control, now)
            if control.delay(now) or self._state.must_yield(control):
                return None
            return self._issue(control.take(now))

    async def acquire(self, arm: str) -> Permit:
        waiter: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._waiting.add(arm, waiter)
        self._serve()
        try:
            return await waiter
        except asyncio.CancelledError:
            # The permit came in the same moment.
            if waiter.done() and not waiter.cancelled():
                waiter.result().release()
            else:
                self._waiting.remove(arm, waiter)
                self._serve()  # stop the timer if nothing waits any more
            raise

    def try_spare(self) -> Permit | None:
        """Return a permit for a spare request (a hedge) if there is room now, no limit is reached, and no request waits."""
        if self._waiting:
            return None
        now = asyncio.get_running_loop().time()
        with self._state as control:
            return self._issue(control.take(now, spare=True)) if control.can_spare(now) else None

    def tighten(self, limits: Limits) -> None:
        """Apply another adapter's limits for this server; the smallest ones hold."""
        with self._state as control:
            control.tighten(limits)

    def set_server_limits(self, headers: ReportedLimits) -> None:
        """Apply the limits in a response's headers."""
        requests = certain_rate(headers.limit_requests, headers.remaining_requests, headers.reset_requests_s)
        tokens = certain_rate(headers.limit_tokens, headers.remaining_tokens, headers.reset_tokens_s)
        if (requests, tokens) != self._server_limits and (requests or tokens):
            self._server_limits = requests, tokens
            with self._state as control:
                control.set_server_limits(requests, tokens)

    def paused_s(self, now: float) -> float:
        """Return the seconds for which the server has asked all requests to pause."""
        with self._state as control:
            return max(0.0, control.paused_until - now)

    def record_wait(self, seconds: float) -> None:
        """Record the seconds for which a request waited for the server's rate."""
        self._load.waited_s += seconds

    def load(self) -> Load:
        """Return what the server's rate has cost since the last `restart_load`. Thread-safe."""
        with self._state as control:
            self._load.cause = describe_limit(control, self._load.refused_share)
        return self._load

    def restart_load(self) -> None:
        """Begin to count again: another experiment begins."""
        self._load = Load()

    def excuses(self, refusals: int) -> bool:
        """Return whether so many refusals of one request in a row are chance, and not a limit or the request's own fault."""
        with self._state as control:
            return control.tolerates_refusals and self._history.explains(refusals)

    def close(self) -> None:
        self._set_timer(None)
        self._state.close()

    def _end(self, sent: Sent, outcome: Reply | BaseException | None) -> None:
        now = asyncio.get_running_loop().time()
        is_refusal = isinstance(outcome, Retryable) and outcome.kind in REFUSALS
        share_before = self._history.find_cluster(now, sent) if is_refusal else None
        self._load.refused += is_refusal
        self._load.in_flight_s += now - sent.at
        with self._state as control:
            control.end(now, sent, outcome, share_before)
        sent.settled = True
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        """Issue permits while there is room, then set a timer for the next one."""
        now = asyncio.get_running_loop().time()
        delay = 0.0
        with self._state as control:
            self._accept_old(control, now)
            self._state.reclaim_dead(control, now)
            while self._waiting and not delay:
                delay = self._state.poll_s if self._state.must_yield(control) else control.delay(now)
                waiter = None if delay else self._waiting.next()
                if waiter is not None and not waiter.cancelled():
                    waiter.set_result(self._issue(control.take(now)))
            self._state.wait(control, bool(self._waiting))
        self._set_timer(delay if self._waiting else None)

    def _set_timer(self, delay: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay is not None:
            self._timer = asyncio.get_running_loop().call_later(min(delay, self._state.poll_s), self._serve)

    def _issue(self, sent: Sent) -> Permit:
        self._recent.append(sent)
        self._history.add(sent)
        self._load.sent += 1
        return Permit(self, sent)

    def _accept_old(self, control: Control, now: float) -> None:
        """Accept requests that have not been refused by now, though their answers may take long."""
        while self._recent and (self._recent[0].settled or now - self._recent[0].at > REFUSAL_S):
            # Counted now, so that a slow answer does not delay what the limiter learns.
            control.accept(self._recent.popleft())


class Permit:
    """The right to have one request in flight; without a limiter there is nothing to release."""

    __slots__ = ("_limiter", "_sent")

    def __init__(self, limiter: Limiter | None = None, sent: Sent | None = None) -> None:
        self._limiter, self._sent = limiter, sent

    def release(self, outcome: Reply | BaseException | None = None) -> None:
        """End the request, once and always: a kept permit reduces the limit. The limiter learns from a reply or an error."""
        if self._limiter is not None and self._sent is not None:
            sent, self._sent = self._sent, None
            self._limiter._end(sent, outcome)


@dataclass(frozen=True, slots=True)
class Workers:
    run: str
    count: int


class Limiters:
    """Opens limiters on demand; `close` stops their timers and leaves the state shared with other processes."""

    def __init__(
        self,
        *,
        ordinary: float = math.inf,
        workers: Workers | None = None,
        open_state: Callable[[str, Control], LimiterState] | None = None,
        parts: int = 1,
    ) -> None:
        """`ordinary` is the number of concurrent samples, over all workers.

        `open_state` returns the state of a server's limiter that workers of several machines share. Each of `parts` has its
        share of set limits.
        """
        self._ordinary = ordinary
        self._workers = workers
        self._open_state = open_state
        self._parts = parts
        self._limiters: dict[str, Limiter] = {}

    def of(self, server: str, limits: Limits) -> Limiter:
        """Return the limiter of a server; if several adapters set limits, the strictest count."""
        limits = limits.share(self._parts)
        if server not in self._limiters:
            self._limiters[server] = Limiter(self._state(server, limits))
        self._limiters[server].tighten(limits)
        return self._limiters[server]

    def paused_s(self, now: float) -> float:
        return max((limiter.paused_s(now) for limiter in tuple(self._limiters.values())), default=0.0)

    def load(self) -> Load:
        """Return what the rates of all servers have cost in the present experiment. Thread-safe."""
        return total_load(limiter.load() for limiter in tuple(self._limiters.values()))

    def restart_load(self) -> None:
        for limiter in tuple(self._limiters.values()):
            limiter.restart_load()

    def close(self) -> None:
        for limiter in self._limiters.values():
            limiter.close()
        self._limiters.clear()

    def _state(self, server: str, limits: Limits) -> LimiterState:
        if self._open_state is not None:
            return self._open_state(server, Control(limits, self._ordinary))
        if self._workers is None or self._workers.count < 2:
            return LimiterState(Control(limits, self._ordinary))
        try:
            from pytest_crucible.backends.limiting.shared_state import SharedState

            # Not guessable: the run's id is drawn at random, and the server's name holds a digest of the key.
            name = hashlib.sha256(f"{self._workers.run} {server}".encode()).hexdigest()[:24]
            return SharedState(runtime_folder() / f"limits-{name}", Control(limits, self._ordinary))
        except (ImportError, OSError):
            # Without fcntl, or without a place for the file, each worker takes its part of the limits.
            parts = self._workers.count
            return LimiterState(Control(limits.share(parts), max(1.0, self._ordinary // parts)))


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
        self._answers += 1
        if self._reporter is not None and self._answers % READ_EVERY == 0:
            headers: ReportedLimits | None = self._reporter.reported_limits
            if headers is not None:
                self._limiter.set_server_limits(headers)
        return reply

    async def _wait(self, request: Request) -> Permit:
        started = asyncio.get_running_loop().time()
        with paused_clock():
            permit = await self._limiter.acquire(request.arm)
        waited = asyncio.get_running_loop().time() - started
        self._limiter.record_wait(waited)
        if waited > NOTICED_S:
            self._emit(Event.about("limiter.wait", request, number=request.sent.count + 1, seconds=waited))
        return permit
