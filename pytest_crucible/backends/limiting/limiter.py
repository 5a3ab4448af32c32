"""Turns at a server: given at once where there is room, else in order, and learned from how they end."""

from __future__ import annotations

import asyncio
from collections import deque

from pytest_crucible.backends.limiting.control import Control, Sent
from pytest_crucible.backends.limiting.limits import Limits
from pytest_crucible.backends.limiting.memory import Memory
from pytest_crucible.backends.limiting.told import LimitsTold, told_rate
from pytest_crucible.backends.limiting.turns import Turns
from pytest_crucible.records import Reply

REFUSAL_S = 1.0
"""A request that is under way for longer will not be refused: servers refuse at once, and models take their time."""


class Limiter:
    """For one server. All calls come from the thread of one running loop at a time; it has no tasks of its own."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._turns: Turns[asyncio.Future[_Lease]] = Turns()
        self._young: deque[Sent] = deque()
        """Requests that may yet be refused, oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._told: tuple[float | None, float | None] = (None, None)

    def at_once(self, arm: str) -> _Lease | None:
        """A turn, if nobody has to wait for one."""
        if self._turns:
            return None
        now = asyncio.get_running_loop().time()
        with self._memory as control:
            self._grow_up(control, now)
            if control.delay(now) or self._memory.is_others_turn(control):
                return None
            return self._lease(control.take(now))

    async def turn(self, arm: str) -> _Lease:
        """A turn, as soon as it comes."""
        waiter: asyncio.Future[_Lease] = asyncio.get_running_loop().create_future()
        self._turns.add(arm, waiter)
        self._serve()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # it came in the same moment
                waiter.result().release()
            else:
                self._turns.remove(arm, waiter)
                self._serve()  # or end the timer, when nobody waits any more
            raise

    def spare(self) -> _Lease | None:
        """Room for one request more, now, beside those whose turn it is."""
        if self._turns:
            return None
        now = asyncio.get_running_loop().time()
        with self._memory as control:
            return self._lease(control.take(now, spare=True)) if control.can_spare(now) else None

    def tighten(self, limits: Limits) -> None:
        """Another adapter of this server allows no more than this."""
        with self._memory as control:
            control.tighten(limits)

    def hear(self, seen: LimitsTold) -> None:
        """What the server says of its limits with an answer."""
        requests = told_rate(seen.limit_requests, seen.remaining_requests, seen.reset_requests_s)
        tokens = told_rate(seen.limit_tokens, seen.remaining_tokens, seen.reset_tokens_s)
        if (requests, tokens) != self._told and (requests or tokens):
            self._told = requests, tokens
            with self._memory as control:
                control.hear(requests, tokens)

    def paused_s(self, now: float) -> float:
        """How much longer everybody is to pause, as the server asks."""
        with self._memory as control:
            return max(0.0, control.paused_until - now)

    def close(self) -> None:
        self._come_back(None)
        self._memory.close()

    def _end(self, sent: Sent, outcome: Reply | BaseException | None) -> None:
        now = asyncio.get_running_loop().time()
        with self._memory as control:
            control.end(now, sent, outcome)
        sent.settled = True
        if self._turns:
            self._serve()

    def _serve(self) -> None:
        """Give turns to who waits while there is room, then come back when there may be."""
        now = asyncio.get_running_loop().time()
        delay = 0.0
        with self._memory as control:
            self._grow_up(control, now)
            self._memory.reap(control, now)
            while self._turns and not delay:
                delay = self._memory.looks_s if self._memory.is_others_turn(control) else control.delay(now)
                if not delay:
                    self._give(control, now)
            self._memory.wait(control, bool(self._turns))
        self._come_back(delay if self._turns else None)

    def _give(self, control: Control, now: float) -> None:
        waiter = self._turns.next()
        if not waiter.cancelled():
            waiter.set_result(self._lease(control.take(now)))

    def _come_back(self, delay: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay is not None:
            self._timer = asyncio.get_running_loop().call_later(min(delay, self._memory.looks_s), self._serve)

    def _lease(self, sent: Sent) -> _Lease:
        self._young.append(sent)
        return _Lease(self, sent)

    def _grow_up(self, control: Control, now: float) -> None:
        """What has not been refused by now was accepted, though its answer may take long."""
        while self._young and (self._young[0].settled or now - self._young[0].at > REFUSAL_S):
            control.accept(self._young.popleft())


class _Lease:
    """The right to have one request under way."""

    __slots__ = ("_limiter", "_sent")

    def __init__(self, limiter: Limiter, sent: Sent) -> None:
        self._limiter = limiter
        self._sent: Sent | None = sent

    def release(self, outcome: Reply | BaseException | None = None) -> None:
        if self._sent is not None:
            sent, self._sent = self._sent, None
            self._limiter._end(sent, outcome)
