"""Quantiles of latencies some of which were cut off: a request cancelled after 2 s would have taken 2 s or more.

Dropping these, or counting them as complete, would make a server look faster the more often it is hedged.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

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
    """The most recent latencies, and their quantiles."""

    def __init__(self, size: int = WINDOW) -> None:
        self._latencies: deque[Latency] = deque(maxlen=size)
        self._curve: list[tuple[float, float]] = []
        self._quantiles: dict[float, float] = {}
        self._new = 0
        self.ended = 0
        """Number of requests that were not cut off, ever."""

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
