"""Hedging: a second request if the first takes too long; the first answer counts, and the slower request is cancelled.

Strategies for when the second request is sent learn from how requests end. Dean & Barroso 2013, "The Tail at Scale", CACM 56(2).
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_crucible.backends.limiting.limiter import Limiter, Permit
from pytest_crucible.backends.protocol import Backend, Wrapper, is_number
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import SpecError

# Number of latencies that are remembered.
WINDOW = 300
# Number of new latencies after which the curve is computed again.
REFRESH = 20


@dataclass(frozen=True, slots=True)
class Latency:
    """The duration of a request; of a request that was cut off, the time until then."""

    seconds: float
    cut_off: bool = False


def survival_curve(latencies: Iterable[Latency]) -> list[tuple[float, float]]:
    """Return the Kaplan-Meier curve: for each time at which a request ended, the share that takes longer.

    At equal times, complete requests come before those cut off. Kaplan & Meier 1958, JASA 53.

    >>> [(t, round(share, 3)) for t, share in survival_curve([Latency(1), Latency(2, cut_off=True), Latency(3), Latency(4)])]
    [(1, 0.75), (3, 0.375), (4, 0.0)]
    """
    # False sorts before True: at equal times the complete request comes first.
    ordered = sorted(latencies, key=lambda latency: (latency.seconds, latency.cut_off))
    share = 1.0
    curve: list[tuple[float, float]] = []
    for place, latency in enumerate(ordered):
        if not latency.cut_off:
            share *= 1 - 1 / (len(ordered) - place)
            if curve and curve[-1][0] == latency.seconds:
                curve.pop()
            curve.append((latency.seconds, share))
    return curve


def quantile(curve: Iterable[tuple[float, float]], share: float) -> float:
    """Return the first time by which this share of requests has ended; infinite if too many were cut off to know.

    >>> quantile([(1, 0.75), (3, 0.375), (4, 0.0)], 0.5)
    3
    """
    # 1e-12: products of shares such as 0.95 are not exact.
    return next((seconds for seconds, longer in curve if longer <= 1 - share + 1e-12), math.inf)


class LatencyWindow:
    def __init__(self, size: int = WINDOW) -> None:
        self._latencies: deque[Latency] = deque(maxlen=size)
        self._curve: list[tuple[float, float]] = []
        self._quantiles: dict[float, float] = {}
        self._new = 0
        self.ended = 0

    def add(self, latency: Latency) -> None:
        self._latencies.append(latency)
        self.ended += not latency.cut_off
        self._new += 1

    def quantile(self, share: float) -> float:
        """Return a quantile over the window, at most REFRESH requests old; infinite if there are no latencies."""
        if self._new >= REFRESH or not self._curve:
            self._curve, self._new = survival_curve(self._latencies), 0
            self._quantiles.clear()
        if share not in self._quantiles:
            self._quantiles[share] = quantile(self._curve, share)
        return self._quantiles[share]


# A delay after which nothing is sent.
NEVER = math.inf


class Delay:
    """A strategy: `of` is called when a request is sent, `learn` when it has ended."""

    def of(self, request: Request) -> float:
        """Return the seconds after which a second request is sent."""
        raise NotImplementedError

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        """Record how long the first request took. `delay` is what `of` returned for it."""


class Stretch:
    """A factor that keeps the hedged share constant while a server slows down: past latencies alone lag behind.

    Stochastic approximation (Robbins & Monro 1951): up a little for each request that exceeds the delay, down by less for each
    that does not, so that it settles where the right share exceeds it.
    """

    # A step of 5 % follows a server that slows down within some twenty requests; the bounds keep one outage from ending hedging.
    STEP, LEAST, MOST = 0.05, 0.8, 4.0

    def __init__(self, share: float) -> None:
        self._up, self._down = math.exp(self.STEP * share), math.exp(-self.STEP * (1 - share))
        self.factor = 1.0

    def learn(self, seconds: float, delay: float) -> None:
        """Record a request's latency and its delay. A request without a delay is ignored."""
        if delay < NEVER:
            moved = self.factor * (self._up if seconds > delay else self._down)
            self.factor = min(self.MOST, max(self.LEAST, moved))


class FixedDelay(Delay):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def of(self, request: Request) -> float:
        return self._seconds


class PercentileDelay(Delay):
    """A quantile of the latencies so far, allowing for requests that were cut off by a hedge."""

    def __init__(self, share: float, *, begin: int, initial: float = NEVER) -> None:
        """`initial` is the delay until `begin` requests have ended."""
        self._share, self._begin, self._initial = share, begin, initial
        self._window, self._stretch = LatencyWindow(), Stretch(share)

    def of(self, request: Request) -> float:
        if self._window.ended < self._begin:
            return self._initial
        return self._expected_s(request) * self._window.quantile(self._share) * self._stretch.factor

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        self._window.add(Latency(latency.seconds / self._expected_s(request), latency.cut_off))
        self._stretch.learn(latency.seconds, delay)

    def _expected_s(self, request: Request) -> float:
        return 1.0


class WorkloadDelay(PercentileDelay):
    """A quantile of latency relative to the expected latency of a request of this size.

    The expected latency is a line, a + b x size, fitted by recursive least squares with forgetting; the size is the length
    of the prompt plus the allowed length of the answer.
    """

    def __init__(self, share: float, *, begin: int) -> None:
        super().__init__(share, begin=begin)
        self._line = _Line()

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        super().learn(request, latency, delay=delay, hedged=hedged)
        if not latency.cut_off:
            self._line.learn(size_of(request), latency.seconds)

    def _expected_s(self, request: Request) -> float:
        # At least a millisecond: an extrapolated line may turn negative.
        return max(self._line.at(size_of(request)), 1e-3)


class AdaptiveDelay(Delay):
    """Thompson sampling over percentiles as delays: those with the best reward are chosen more often.

    The reward of a request lies between 0 and 1: one minus its latency, minus the price of a second request if it was hedged,
    in units of the slowest hundredth. One draw turns it into a success or a failure, so that each percentile has a Beta
    distribution (Agrawal & Goyal 2012, algorithm 2). Old experience fades, since servers change.
    """

    SHARES = (0.75, 0.90, 0.95, 0.99, 1.0)
    """Percentiles to choose from; 1 means never to hedge."""
    FADING = 0.998

    def __init__(self, *, begin: int, seed: int, price: float = 0.5) -> None:
        """`price` is the cost of a second request, in median latencies."""
        self._begin, self._price = begin, price
        self._draws, self._window = random.Random(seed), LatencyWindow()
        self._stretch = {share: Stretch(share) for share in self.SHARES}
        self._beliefs = {share: [1.0, 1.0] for share in self.SHARES}
        self._chosen: dict[tuple[str, str, int, str], float] = {}

    def of(self, request: Request) -> float:
        if self._window.ended < self._begin:
            return NEVER
        share = max(self.SHARES, key=lambda candidate: self._draws.betavariate(*self._beliefs[candidate]))
        self._chosen[_key(request)] = share
        return NEVER if share == 1.0 else self._window.quantile(share) * self._stretch[share].factor

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        self._window.add(latency)
        share = self._chosen.pop(_key(request), None)
        if share is None:
            return
        self._stretch[share].learn(latency.seconds, delay)
        # The slowest hundredth as unit keeps rewards within 0 to 1 for nearly all requests.
        scale = self._window.quantile(0.99)
        if not 0 < scale < math.inf:
            return
        spent = latency.seconds + (self._price * self._window.quantile(0.5) if hedged else 0.0)
        won = self._draws.random() < 1 - min(1.0, spent / scale)
        # Forget towards the flat prior Beta(1, 1), so that every percentile is tried again some day.
        for belief in self._beliefs.values():
            belief[:] = [1 + (part - 1) * self.FADING for part in belief]
        self._beliefs[share][0 if won else 1] += 1.0


class _Line:
    """a + b x, by recursive least squares (Haykin, Adaptive Filter Theory, table 10.1)."""

    FORGETTING = 0.999

    def __init__(self) -> None:
        self._level, self._slope = 0.0, 0.0
        # The inverse covariance, which is symmetric. A large start: the first requests determine the line, not the zeros.
        self._corner, self._side, self._end = 1e3, 0.0, 1e3

    def at(self, size: float) -> float:
        return self._level + self._slope * size

    def learn(self, size: float, value: float) -> None:
        # The inverse times (1, size), by hand: numpy would be imported by every session, and is slower at two numbers.
        first, second = self._corner + self._side * size, self._side + self._end * size
        scale = self.FORGETTING + first + second * size
        error = value - self.at(size)
        self._level += first / scale * error
        self._slope += second / scale * error
        self._corner = (self._corner - first * first / scale) / self.FORGETTING
        self._side = (self._side - first * second / scale) / self.FORGETTING
        self._end = (self._end - second * second / scale) / self.FORGETTING


def size_of(request: Request) -> float:
    """Return the size of a request: characters of the prompt and of the allowed answer (four a token), in thousands."""
    allowed = request.parameters.get("max_tokens") or 0
    prompt, characters = request.input, 0
    if isinstance(prompt, str):
        characters = len(prompt)
    elif isinstance(prompt, Sequence):
        characters = sum(len(str(part.get("content", ""))) if isinstance(part, dict) else 1 for part in prompt)
    return (characters + 4 * float(allowed)) / 1000


def _key(request: Request) -> tuple[str, str, int, str]:
    return request.experiment, request.sample, request.repeat, request.arm


MAX_EXTRA, BEGIN, PERCENTILE = 0.1, 20, 95
_STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "fixed": ("delay_s",),
    "percentile": ("percentile", "min_samples", "initial_delay_s"),
    "adaptive": ("min_samples", "price"),
    "workload": ("percentile", "min_samples"),
}
_LIMITS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "max_extra": (lambda value: 0 < value <= 1, "a share above 0 and at most 1, such as 0.1"),
    **dict.fromkeys(("delay_s", "initial_delay_s"), (lambda value: value >= 0, "seconds, such as 0.5")),
    "percentile": (lambda value: 50 <= value < 100, "a number from 50 to below 100, such as 95"),
    "min_samples": (lambda value: value >= 5 and value == int(value), "a whole number of at least 5"),
    "price": (lambda value: value >= 0, "median latencies that a second request may cost, such as 0.5"),
}


@dataclass(frozen=True, slots=True)
class Hedge:
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
    _check(adapter, table)
    return Hedge(_delay(table, seed), float(table.get("max_extra", MAX_EXTRA)))


def _check(adapter: Adapter, table: Mapping[str, Any]) -> None:
    strategy = table["strategy"]
    names = {"strategy", "max_extra", *_STRATEGIES[strategy]}
    for name, value in table.items():
        if name not in names:
            raise SpecError(
                f"adapter {adapter.name!r} has hedge.{name}, which strategy {strategy!r} does not have; "
                f"expected {', '.join(sorted(names))}"
            )
        if name != "strategy":
            holds, expected = _LIMITS[name]
            if not (is_number(value) and holds(value)):
                raise SpecError(f"adapter {adapter.name!r} has hedge.{name} = {value!r}: write {expected}")
    if strategy == "fixed" and "delay_s" not in table:
        raise SpecError(f"adapter {adapter.name!r} hedges with strategy 'fixed' but has no delay: add delay_s = 0.5")


def _delay(table: Mapping[str, Any], seed: int) -> Delay:
    begin, share = int(table.get("min_samples", BEGIN)), table.get("percentile", PERCENTILE) / 100
    if table["strategy"] == "fixed":
        return FixedDelay(float(table["delay_s"]))
    if table["strategy"] == "percentile":
        return PercentileDelay(share, begin=begin, initial=float(table.get("initial_delay_s", NEVER)))
    if table["strategy"] == "adaptive":
        return AdaptiveDelay(begin=begin, seed=seed, price=float(table.get("price", 0.5)))
    return WorkloadDelay(share, begin=begin)


Answer = asyncio.Task[Reply]
# Second requests that can be saved up, so that a quiet hour does not allow a storm.
MOST_SAVED = 10.0


class Hedged(Wrapper):
    """Hedges slow requests, within `max_extra` and if the limiter has room; failed ones are left to the retry wrapper."""

    def __init__(self, inner: Backend, hedge: Hedge, limiter: Limiter | None, emit: Emit) -> None:
        super().__init__(inner)
        self._delay, self._max_extra = hedge.delay, hedge.max_extra
        self._saved = 0.0
        """Second requests that may be sent: each request earns a share of one."""
        self._limiter, self._emit = limiter, emit

    async def generate(self, request: Request) -> Reply:
        # Text that is read as it comes cannot be that of two requests.
        if request.open_stream is not None:
            return await self.inner.generate(request)
        delay = self._delay.of(request)
        self._saved = min(MOST_SAVED, self._saved + self._max_extra)
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
        if self._saved < 1.0:
            return None
        permit = Permit() if self._limiter is None else self._limiter.try_spare()
        self._saved -= permit is not None
        return permit

    async def _race(self, request: Request, first: Answer, permit: Permit, started: float, delay: float) -> Reply:
        # The second request is sent next.
        number = request.sent.count + 1
        self._publish("hedge.fired", request, number, delay)
        second = asyncio.create_task(self._send_second(request, permit))
        try:
            winner = await _first_answer(first, second)
            reply, seconds = winner.result(), _now() - started
        finally:
            await _end(second)
        self._delay.learn(request, Latency(seconds, cut_off=winner is second), delay=delay, hedged=True)
        if winner is first:
            return reply
        self._publish("hedge.won", request, number, delay)
        return dataclasses.replace(reply, latency_s=seconds)

    async def _send_second(self, request: Request, permit: Permit) -> Reply:
        try:
            reply = await self.inner.generate(request)
        except BaseException as error:
            permit.release(error)
            raise
        permit.release(reply)
        return reply

    def _publish(self, name: str, request: Request, number: int, delay: float) -> None:
        self._emit(Event.about(name, request, number=number, facts={"delay_s": delay}))


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
