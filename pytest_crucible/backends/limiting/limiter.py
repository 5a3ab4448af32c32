"""The limiter of a server: issues permits, at once or in order, and learns from how requests end."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pytest_crucible.backends.limiting.chance import RefusalHistory, Sent
from pytest_crucible.backends.limiting.control import Control, Limits
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import REFUSALS, Retryable


class LimiterState:
    """The state of a limiter in one process. `with state as control:` gives exclusive access; the block must not wait.

    A state that processes share (`SharedState`) overrides its methods.
    """

    poll_s = 1.0
    """How often to look whether other processes have made room."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def __enter__(self) -> Control:
        return self._control

    def __exit__(self, *error: object) -> None:
        """Nothing to unlock."""

    def must_yield(self, control: Control) -> bool:
        """Return whether another process waits that has less than its share."""
        return False

    def wait(self, control: Control, waits: bool) -> None:
        """Record whether requests of this process wait."""

    def reclaim_dead(self, control: Control, now: float) -> None:
        """Reclaim, from time to time, the permits of processes that have died."""

    def close(self) -> None:
        """Return the permits that are still held."""


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


# A smaller part of the time is not worth a sentence.
NOTICEABLE = 0.1


@dataclass(slots=True)
class Load:
    """Counts of the requests of this process, and of their seconds."""

    sent: int = 0
    refused: int = 0
    waited_s: float = 0.0
    """In the limiter's queue, and after refusals."""
    in_flight_s: float = 0.0
    cause: str = ""
    """What the server does, as the limiter has learned it: `it allows about 50 requests/s`."""

    @property
    def waiting_share(self) -> float:
        total = self.waited_s + self.in_flight_s
        return self.waited_s / total if total else 0.0

    @property
    def refused_share(self) -> float:
        return self.refused / self.sent if self.sent else 0.0


def total_load(loads: Iterable[Load]) -> Load:
    """Return the sum of the loads of several servers; the cause is that of the one that was waited for longest."""
    parts = sorted(loads, key=lambda load: -load.waited_s)
    names = ("sent", "refused", "waited_s", "in_flight_s")
    sums = {name: sum(getattr(load, name) for load in parts) for name in names}
    return Load(**sums, cause=parts[0].cause if parts else "")


def explain_load(load: Load) -> str:
    """Return the sentence for the end of a run; empty if hardly any time was spent waiting.

    >>> explain_load(Load(300, 45, 61.0, 39.0, "it refuses 15 % at any rate"))
    "waiting for the server's rate was 61 % of the time: it refuses 15 % at any rate"
    """
    if load.waiting_share < NOTICEABLE or not load.cause:
        return ""
    return f"waiting for the server's rate was {100 * load.waiting_share:.0f} % of the time: {load.cause}"


def describe_limit(control: Control, refused_share: float) -> str:
    """Return what the limiter has learned of a server; empty if it refuses nothing."""
    pacing, window = control.pacing, control.window
    chance = f" and refuses {100 * pacing.chance.share:.0f} % at any rate" if pacing.chance.share else ""
    if window.size < math.inf and window.cubic.limit < math.inf:
        return f"it allows about {window.size:.0f} requests at a time{chance}"
    rate = min(pacing.most, pacing.server_limit, pacing.cubic.limit)
    if rate < math.inf:
        return f"it allows about {rate:.2g} requests/s{chance}"
    if control.token_meter.server_limit < math.inf or control.token_meter.most < math.inf:
        return f"it allows {min(control.token_meter.server_limit, control.token_meter.most):,.0f} tokens a minute"
    return f"it refuses {100 * refused_share:.0f} % at any rate" if refused_share else ""


# A second, a minute, an hour, a day.
PERIODS_S = (1, 60, 3600, 86400)
# Largest relative difference of two readings that agree.
AGREES = 0.1
# Usage below this is not conclusive: the reported times are rounded.
FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLimits:
    """The `x-ratelimit-*` headers of one response; None if a header is absent.

    Headers do not name the period: most servers count requests and tokens per minute, some requests per day.
    """

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    """Seconds until all requests are available again."""
    reset_tokens_s: float | None = None


def certain_rate(limit: int | None, remaining: int | None, reset_s: float | None) -> float | None:
    """Return the requests (or tokens) per second that the headers allow; None if they do not agree.

    >>> certain_rate(limit=3000, remaining=2990, reset_s=0.2)
    50.0
    """
    # A small usage is dominated by the rounding of the reset time.
    if limit is None or remaining is None or not reset_s or limit - remaining < FEW:
        return None
    back = (limit - remaining) / reset_s
    return next((limit / period for period in PERIODS_S if abs(back * period / limit - 1) <= AGREES), None)


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
        """Return a permit if there is one now, else None."""
        if self._waiting:
            return None
        now = asyncio.get_running_loop().time()
        with self._state as control:
            self._accept_old(control, now)
            if control.delay(now) or self._state.must_yield(control):
                return None
            return self._issue(control.take(now))

    async def acquire(self, arm: str) -> Permit:
        """Wait for a permit, in turn."""
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
        """Return a permit for a spare request (a hedge) if there is room now. Never waits.

        None while the limiter backs off, paces or pauses, while other requests wait, and when a user limit is reached.
        """
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
                if not delay:
                    self._grant(control, now)
            self._state.wait(control, bool(self._waiting))
        self._set_timer(delay if self._waiting else None)

    def _grant(self, control: Control, now: float) -> None:
        waiter = self._waiting.next()
        if not waiter.cancelled():
            waiter.set_result(self._issue(control.take(now)))

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
        """End the request. Idempotent; it must always be called, because a permit that is kept reduces the limit for good.

        The limiter learns from `outcome`: the reply (its tokens) or the error (a `Retryable` of kind 429, for example).
        Cancellations and None are ignored.
        """
        if self._limiter is not None and self._sent is not None:
            sent, self._sent = self._sent, None
            self._limiter._end(sent, outcome)
