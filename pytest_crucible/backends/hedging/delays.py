"""When a second request goes out: strategies, which learn from how requests end.

Dean & Barroso 2013, "The Tail at Scale", CACM 56(2).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pytest_crucible.backends.hedging.survival import Latency, LatencyWindow
from pytest_crucible.records import Request

NEVER = math.inf
"""A delay after which nothing is sent."""


class Delay(Protocol):
    """A strategy. It is asked when a request is sent, and told when that request is over."""

    def of(self, request: Request) -> float:
        """Seconds until a second request goes out."""

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        """The first request of the two took so long. `delay` is what `of` answered for it."""


class Stretch:
    """A factor that keeps a delay at its share while a server grows slower: the past alone would lag behind.

    Robbins & Monro 1951: up by a little for each request that exceeds the delay, down by less for each that does not, so that
    it rests where the right share exceeds it.
    """

    STEP, LEAST, MOST = 0.05, 0.8, 4.0

    def __init__(self, share: float) -> None:
        self._up, self._down = math.exp(self.STEP * share), math.exp(-self.STEP * (1 - share))
        self.factor = 1.0

    def learn(self, seconds: float, delay: float) -> None:
        """A request took so long, with this delay. One without a delay says nothing."""
        if delay < NEVER:
            moved = self.factor * (self._up if seconds > delay else self._down)
            self.factor = min(self.MOST, max(self.LEAST, moved))


class FixedDelay:
    """Always the same."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def of(self, request: Request) -> float:
        return self._seconds

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        """A number that was given is kept."""


class PercentileDelay:
    """A quantile of the latencies so far, as long as nothing was cut off sooner than it."""

    def __init__(self, share: float, *, begin: int, initial: float = NEVER) -> None:
        """`initial` counts until `begin` requests have ended."""
        self._share = share
        self._begin = begin
        self._initial = initial
        self._window = LatencyWindow()
        self._stretch = Stretch(share)

    def of(self, request: Request) -> float:
        if self._window.ended < self._begin:
            return self._initial
        return self._window.quantile(self._share) * self._stretch.factor

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        self._window.add(latency)
        self._stretch.learn(latency.seconds, delay)


class WorkloadDelay:
    """Long questions may take long: a quantile of latency over what is to be expected of a request of this size.

    What is to be expected is a line, a + b x size, by recursive least squares with forgetting; the size is the length of the
    prompt and of the answer that is allowed.
    """

    def __init__(self, share: float, *, begin: int) -> None:
        self._share = share
        self._begin = begin
        self._line = _Line()
        self._ratios = LatencyWindow()
        self._stretch = Stretch(share)

    def of(self, request: Request) -> float:
        if self._ratios.ended < self._begin:
            return NEVER
        return self._expected(request) * self._ratios.quantile(self._share) * self._stretch.factor

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        self._ratios.add(Latency(latency.seconds / self._expected(request), latency.cut_off))
        self._stretch.learn(latency.seconds, delay)
        if not latency.cut_off:
            self._line.learn(size_of(request), latency.seconds)

    def _expected(self, request: Request) -> float:
        return max(self._line.at(size_of(request)), 1e-3)


class AdaptiveDelay:
    """Thompson sampling over percentiles as delays: what pays is asked for more often.

    The reward of a request lies in 0 to 1: one minus its latency and, where it was hedged, the price of a second request, both
    in units of the slowest hundredth. It is made a success or a failure by one draw, so that each candidate has a Beta law
    (Agrawal & Goyal 2012, algorithm 2). Old experience fades, since servers change.
    """

    CANDIDATES = (0.75, 0.90, 0.95, 0.99, 1.0)
    """Shares of requests that have ended by then; 1 is never to hedge."""
    FADES = 0.998

    def __init__(self, *, begin: int, seed: int, price: float = 0.5) -> None:
        """`price` of a second request, in median latencies."""
        self._begin = begin
        self._price = price
        self._draws = random.Random(seed)
        self._window = LatencyWindow()
        self._stretch = {share: Stretch(share) for share in self.CANDIDATES}
        self._laws = {share: [1.0, 1.0] for share in self.CANDIDATES}
        self._chosen: dict[tuple[str, str, int, str], float] = {}

    def of(self, request: Request) -> float:
        if self._window.ended < self._begin:
            return NEVER
        share = max(self.CANDIDATES, key=lambda one: self._draws.betavariate(*self._laws[one]))
        self._chosen[_key(request)] = share
        return NEVER if share == 1.0 else self._window.quantile(share) * self._stretch[share].factor

    def learn(self, request: Request, latency: Latency, *, delay: float, hedged: bool) -> None:
        self._window.add(latency)
        share = self._chosen.pop(_key(request), None)
        if share is None:
            return
        self._stretch[share].learn(latency.seconds, delay)
        scale = self._window.quantile(0.99)
        if not 0 < scale < math.inf:
            return
        spent = latency.seconds + (self._price * self._window.quantile(0.5) if hedged else 0.0)
        won = self._draws.random() < 1 - min(1.0, spent / scale)
        for law in self._laws.values():
            law[:] = [1 + (part - 1) * self.FADES for part in law]
        self._laws[share][0 if won else 1] += 1.0


class _Line:
    """a + b x, by recursive least squares (Haykin, Adaptive Filter Theory, table 10.1)."""

    FORGETS = 0.999

    def __init__(self) -> None:
        self._weights = np.zeros(2)
        self._inverse = np.eye(2) * 1e3

    def at(self, size: float) -> float:
        return float(self._weights @ (1.0, size))

    def learn(self, size: float, value: float) -> None:
        point = np.array([1.0, size])
        gain = self._inverse @ point / (self.FORGETS + point @ self._inverse @ point)
        self._weights += gain * (value - self._weights @ point)
        self._inverse = (self._inverse - np.outer(gain, point @ self._inverse)) / self.FORGETS


def size_of(request: Request) -> float:
    """Thousands of characters of the prompt, and of tokens that the answer may have, of four characters each."""
    allowed = request.parameters.get("max_tokens") or 0
    return (_characters(request.input) + 4 * float(allowed)) / 1000


def _characters(given: Any) -> int:
    if isinstance(given, str):
        return len(given)
    if isinstance(given, Sequence):
        return sum(len(str(one.get("content", ""))) if isinstance(one, dict) else 1 for one in given)
    return 0


def _key(request: Request) -> tuple[str, str, int, str]:
    return request.experiment, request.sample, request.epoch, request.arm
