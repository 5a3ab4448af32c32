"""A worker's side of a leased budget."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

from pytest_crucible.backends.budget import UNLIMITED, Amount, SpendLedger
from pytest_crucible.backends.deadlines import paused_clock
from pytest_crucible.features.scale.budget_leases import SpendAnswer, SpendReport
from pytest_crucible.quick_dataclass import dataclass

# Leased in advance: as much as was reserved in so many periods of the exchange.
PERIODS = 2.0


@dataclass(slots=True)
class _Need:
    amount: Amount
    answer: asyncio.Future[bool]
    loop: asyncio.AbstractEventLoop


class LeasedLedger(SpendLedger):
    """A ledger that spends a lease. `report` and `apply` are called by the thread that exchanges leases.

    `spent` and `committed` are those of all workers, as of the last exchange.
    """

    def __init__(self, wake: Callable[[], None], close: Callable[[], None]) -> None:
        """`wake` asks for an exchange soon; `close` sends the last report."""
        super().__init__()
        self._wake, self._close, self._lock = wake, close, threading.Lock()
        self._limit = UNLIMITED
        self._lease = self._reserved = self._own = self._since = self._advance = Amount()
        """Leased, reserved, spent by this worker; reserved since the last report, and kept for the next ones."""
        self._is_short = False
        self._needs: list[_Need] = []
        self._reported: list[_Need] = []

    def take(self, amount: Amount, limit: Amount) -> bool:
        with self._lock:
            self._limit = limit
            after = self._reserved.plus(amount)
            if fits := after.within(_where_limited(self._lease, limit)):
                self._reserved, self._since = after, self._since.plus(amount)
            return fits

    def settle(self, reserved: Amount, spent: Amount) -> None:
        with self._lock:
            self._reserved = self._reserved.plus(reserved, -1.0)
            self._lease, self._own = self._lease.plus(spent, -1.0), self._own.plus(spent)

    async def lease_more(self, amount: Amount, limit: Amount) -> bool:
        loop = asyncio.get_running_loop()
        need = _Need(amount, loop.create_future(), loop)
        with self._lock:
            self._limit = limit
            self._needs.append(need)
        self._wake()
        try:
            with paused_clock():
                return await need.answer
        finally:
            with self._lock:
                if need in self._needs:
                    self._needs.remove(need)

    def close(self) -> None:
        self._close()

    def report(self) -> SpendReport:
        """Give back what is not needed, and return the state of this worker."""
        with self._lock:
            self._advance = Amount(*map(max, _times(self._since, PERIODS), _times(self._advance, 0.5)))
            self._since = Amount()
            # While workers wait, nothing is held in advance: two with half of what they need would wait for each other.
            advance = Amount() if self._needs or self._is_short else self._advance
            unused = self._lease.beyond(self._reserved)
            reserve = Amount(*map(min, unused, advance))
            self._lease = self._reserved.plus(reserve)
            self._reported = list(self._needs)
            needs = tuple(need.amount for need in self._reported)
            return SpendReport(self._limit, self._own, self._lease, needs, advance.beyond(reserve))

    def apply(self, answer: SpendAnswer, before: float) -> None:
        """Use what was added to the lease, and wake the requests that it is for."""
        with self._lock:
            self._lease = self._lease.plus(answer.added)
            self._amounts, self._is_short = (answer.committed, answer.spent), answer.is_short
            decided = [
                (need, decision)
                for need, decision in zip(self._reported, answer.decisions, strict=True)
                if decision != "wait"
            ]
            for need, _ in decided:
                if need in self._needs:
                    self._needs.remove(need)
        for need, decision in decided:
            need.loop.call_soon_threadsafe(_resolve, need.answer, decision == "granted")


def _resolve(answer: asyncio.Future[bool], is_granted: bool) -> None:
    if not answer.done():
        answer.set_result(is_granted)


def _where_limited(lease: Amount, limit: Amount) -> Amount:
    return Amount(*(part if most < math.inf else math.inf for part, most in zip(lease, limit, strict=True)))


def _times(amount: Amount, factor: float) -> Amount:
    return Amount().plus(amount, factor)
