"""The limiter of a server: issues permits, at once or in order, and learns from how requests end."""

from __future__ import annotations

import asyncio
from collections import deque

from pytest_crucible.backends.limiting.control import Control, Sent
from pytest_crucible.backends.limiting.headers import RateLimitHeaders, certain_rate
from pytest_crucible.backends.limiting.limits import Limits
from pytest_crucible.backends.limiting.load import Load, describe_limit
from pytest_crucible.backends.limiting.refusal_clusters import RefusalHistory
from pytest_crucible.backends.limiting.round_robin import RoundRobin
from pytest_crucible.backends.limiting.state import LimiterState
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import REFUSALS, Retryable

# A request in flight for longer will not be refused: servers refuse at once, but models take their time to answer.
REFUSAL_S = 1.0


class Limiter:
    """Limiter of one server. All calls come from the thread of one running loop; it starts no tasks."""

    def __init__(self, state: LimiterState) -> None:
        self._state = state
        self._waiting: RoundRobin[asyncio.Future[_Permit]] = RoundRobin()
        self._recent: deque[Sent] = deque()
        """Requests that may still be refused, oldest first."""
        self._history = RefusalHistory()
        self._load = Load()
        self._timer: asyncio.TimerHandle | None = None
        self._server_limits: tuple[float | None, float | None] = (None, None)

    def try_acquire(self, arm: str) -> _Permit | None:
        """Return a permit if there is one now, else None."""
        if self._waiting:
            return None
        now = asyncio.get_running_loop().time()
        with self._state as control:
            self._accept_old(control, now)
            if control.delay(now) or self._state.must_yield(control):
                return None
            return self._issue(control.take(now))

    async def acquire(self, arm: str) -> _Permit:
        """Wait for a permit, in turn."""
        waiter: asyncio.Future[_Permit] = asyncio.get_running_loop().create_future()
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

    def try_spare(self) -> _Permit | None:
        """Return a permit for a spare request (a hedge), if there is room now."""
        if self._waiting:
            return None
        now = asyncio.get_running_loop().time()
        with self._state as control:
            return self._issue(control.take(now, spare=True)) if control.can_spare(now) else None

    def tighten(self, limits: Limits) -> None:
        """Apply another adapter's limits for this server; the smallest ones hold."""
        with self._state as control:
            control.tighten(limits)

    def set_server_limits(self, headers: RateLimitHeaders) -> None:
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

    def _issue(self, sent: Sent) -> _Permit:
        self._recent.append(sent)
        self._history.add(sent)
        self._load.sent += 1
        return _Permit(self, sent)

    def _accept_old(self, control: Control, now: float) -> None:
        """Accept requests that have not been refused by now, though their answers may take long."""
        while self._recent and (self._recent[0].settled or now - self._recent[0].at > REFUSAL_S):
            # Counted now, so that a slow answer does not delay what the limiter learns.
            control.accept(self._recent.popleft())


class _Permit:
    """The right to have one request in flight."""

    __slots__ = ("_limiter", "_sent")

    def __init__(self, limiter: Limiter, sent: Sent) -> None:
        self._limiter = limiter
        self._sent: Sent | None = sent

    def release(self, outcome: Reply | BaseException | None = None) -> None:
        if self._sent is not None:
            sent, self._sent = self._sent, None
            self._limiter._end(sent, outcome)
