"""Hedging: a second request if the first takes too long; the first answer counts, and the slower request is cancelled."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.backends.hedge_delays import (
    AdaptiveDelay,
    Delay,
    FixedDelay,
    Latency,
    PercentileDelay,
    WorkloadDelay,
)
from pytest_crucible.backends.limiting.limiter import Limiter, Permit
from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import SpecError

MAX_EXTRA, BEGIN, PERCENTILE = 0.1, 20, 95
_COMMON = {"strategy", "max_extra"}
_STRATEGIES: Mapping[str, frozenset[str]] = {
    "fixed": frozenset({"delay_s"}),
    "percentile": frozenset({"percentile", "min_samples", "initial_delay_s"}),
    "adaptive": frozenset({"min_samples", "price"}),
    "workload": frozenset({"percentile", "min_samples"}),
}
_LIMITS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "max_extra": (lambda value: 0 < value <= 1, "a share above 0 and at most 1, such as 0.1"),
    "delay_s": (lambda value: value >= 0, "seconds, such as 0.5"),
    "initial_delay_s": (lambda value: value >= 0, "seconds, such as 0.5"),
    "percentile": (lambda value: 50 <= value < 100, "a number from 50 to below 100, such as 95"),
    "min_samples": (lambda value: value >= 5 and value == int(value), "a whole number of at least 5"),
    "price": (lambda value: value >= 0, "median latencies that a second request may cost, such as 0.5"),
}


@dataclass(frozen=True, slots=True)
class Hedge:
    """A strategy, and the largest share of second requests."""

    delay: Delay
    max_extra: float


def read_hedge(adapter: Adapter, seed: int) -> Hedge | None:
    """Read `hedge` of an adapter; None if it has none. Raises SpecError."""
    table = adapter.asking.get("hedge")
    if table is None:
        return None
    if not isinstance(table, Mapping) or table.get("strategy") not in tuple(_STRATEGIES):
        raise SpecError(
            f"adapter {adapter.name!r} has hedge = {table!r}: write a table with strategy = one of {', '.join(_STRATEGIES)}"
        )
    strategy = table["strategy"]
    _check(adapter, strategy, table)
    return Hedge(_delay(strategy, table, seed), float(table.get("max_extra", MAX_EXTRA)))


def _check(adapter: Adapter, strategy: str, table: Mapping[str, Any]) -> None:
    names = _COMMON | _STRATEGIES[strategy]
    for name, value in table.items():
        if name not in names:
            raise SpecError(
                f"adapter {adapter.name!r} has hedge.{name}, which strategy {strategy!r} does not have; "
                f"expected {', '.join(sorted(names))}"
            )
        if name == "strategy":
            continue
        holds, expected = _LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and holds(value)):
            raise SpecError(f"adapter {adapter.name!r} has hedge.{name} = {value!r}: write {expected}")
    if strategy == "fixed" and "delay_s" not in table:
        raise SpecError(f"adapter {adapter.name!r} hedges with strategy 'fixed' but has no delay: add delay_s = 0.5")


def _delay(strategy: str, table: Mapping[str, Any], seed: int) -> Delay:
    begin, share = int(table.get("min_samples", BEGIN)), table.get("percentile", PERCENTILE) / 100
    if strategy == "fixed":
        return FixedDelay(float(table["delay_s"]))
    if strategy == "percentile":
        initial = table.get("initial_delay_s", float("inf"))
        return PercentileDelay(share, begin=begin, initial=float(initial))
    if strategy == "adaptive":
        return AdaptiveDelay(begin=begin, seed=seed, price=float(table.get("price", 0.5)))
    return WorkloadDelay(share, begin=begin)


Answer = asyncio.Task[Reply]
# Second requests that can be saved up, so that a quiet hour does not allow a storm.
MOST_SAVED = 10.0


class HedgeBudget:
    """Each request earns a share of a second request."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = 0.0

    def earn(self) -> None:
        self._saved = min(MOST_SAVED, self._saved + self._share)

    def spend(self) -> bool:
        """Spend one second request, if a whole one was earned; return whether it was.

        >>> budget = HedgeBudget(0.5)
        >>> budget.earn(), budget.spend(), budget.earn(), budget.spend(), budget.spend()
        (None, False, None, True, False)
        """
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True


class Hedged(Wrapper):
    """Only slow requests are hedged: a request that fails before the delay is left to the retry wrapper.

    A second request is sent only within `max_extra`, and if the limiter has room to spare.
    """

    def __init__(self, inner: Backend, hedge: Hedge, limiter: Limiter | None, emit: Emit) -> None:
        super().__init__(inner)
        self._delay = hedge.delay
        self._budget = HedgeBudget(hedge.max_extra)
        self._limiter = limiter
        self._emit = emit

    async def generate(self, request: Request) -> Reply:
        # Text that is read as it comes cannot be that of two requests.
        if request.open_stream is not None:
            return await self.inner.generate(request)
        delay = self._delay.of(request)
        self._budget.earn()
        started = _now()
        if math.isinf(delay):
            return self._finish_first(request, await self.inner.generate(request), started, delay)
        first = asyncio.create_task(self.inner.generate(request))
        try:
            await asyncio.wait((first,), timeout=delay)
            permit = None if first.done() else self._second_permit()
            if permit is None:
                return self._finish_first(request, await first, started, delay)
            return await self._race(request, first, permit, started, delay)
        finally:
            # Also when this request was cancelled: the inner request must not go on alone.
            await _end(first)

    def _finish_first(self, request: Request, reply: Reply, started: float, delay: float) -> Reply:
        self._delay.learn(request, Latency(_now() - started), delay=delay, hedged=False)
        return reply

    def _second_permit(self) -> Permit | None:
        """Return a permit to send a second request now, if there is one."""
        permit = Permit() if self._limiter is None else self._limiter.try_spare()
        # The permit is returned when the hedge budget is used up: it would be lost otherwise.
        if permit is not None and not self._budget.spend():
            permit.release()
            return None
        return permit

    async def _race(self, request: Request, first: Answer, permit: Permit, started: float, delay: float) -> Reply:
        self._publish("hedge.fired", request, {"delay_s": delay})
        second = asyncio.create_task(self._send_second(request, permit))
        try:
            winner = await _first_answer(first, second)
            reply, seconds = winner.result(), _now() - started
        finally:
            await _end(second)
        self._delay.learn(request, Latency(seconds, cut_off=winner is second), delay=delay, hedged=True)
        if winner is first:
            return reply
        self._publish("hedge.won", request, {"delay_s": delay})
        return dataclasses.replace(reply, latency_s=seconds)

    async def _send_second(self, request: Request, permit: Permit) -> Reply:
        try:
            reply = await self.inner.generate(request)
        except BaseException as error:
            permit.release(error)
            raise
        permit.release(reply)
        return reply

    def _publish(self, name: str, request: Request, facts: dict[str, Any]) -> None:
        self._emit(Event.about(name, request, facts=facts))


async def _first_answer(first: Answer, second: Answer) -> Answer:
    """Return the task that answered first; if both failed, the first one, whose error counts."""
    pending = {first, second}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        answered = [task for task in (first, second) if task in done and task.exception() is None]
        if answered:
            return answered[0]
    return first


async def _end(task: Answer) -> None:
    """Cancel a task and wait until it has released what it held."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        # Retrieved, so that asyncio does not warn about an error that no longer matters.
        task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()
