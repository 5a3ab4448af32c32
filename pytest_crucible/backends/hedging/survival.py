"""Quantiles of latencies of which some were cut off: a request that was cancelled after 2 s took 2 s or more.

Leaving them out, or taking the cut for the end, would make a server look faster the more often it is hedged.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

WINDOW = 300
"""Latencies that are remembered."""
REFRESH = 20
"""After so many new ones the curve is made anew."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a request took, or, when it was cut off, how long it had taken by then."""

    seconds: float
    cut_off: bool = False


def survival(latencies: Iterable[Latency]) -> list[tuple[float, float]]:
    """The Kaplan-Meier curve: for each time at which some request ended, the share that takes longer.

    At equal times ends come before cuts. Kaplan & Meier 1958, JASA 53.

    >>> [(t, round(share, 3)) for t, share in survival([Latency(1), Latency(2, cut_off=True), Latency(3), Latency(4)])]
    [(1, 0.75), (3, 0.375), (4, 0.0)]
    """
    ordered = sorted(latencies, key=lambda one: (one.seconds, one.cut_off))
    share = 1.0
    curve: list[tuple[float, float]] = []
    for place, one in enumerate(ordered):
        if not one.cut_off:
            share *= 1 - 1 / (len(ordered) - place)
            if curve and curve[-1][0] == one.seconds:
                curve.pop()
            curve.append((one.seconds, share))
    return curve


def quantile(curve: Iterable[tuple[float, float]], share: float) -> float:
    """The first time by which that share has ended; infinite where cuts leave it open.

    >>> quantile([(1, 0.75), (3, 0.375), (4, 0.0)], 0.5)
    3
    """
    return next((seconds for seconds, longer in curve if longer <= 1 - share + 1e-12), math.inf)


class LatencyWindow:
    """The last latencies, and their quantiles."""

    def __init__(self, size: int = WINDOW) -> None:
        self._latencies: deque[Latency] = deque(maxlen=size)
        self._curve: list[tuple[float, float]] = []
        self._quantiles: dict[float, float] = {}
        self._new = 0
        self.ended = 0
        """How many requests ended by themselves, ever."""

    def add(self, latency: Latency) -> None:
        self._latencies.append(latency)
        self.ended += not latency.cut_off
        self._new += 1

    def quantile(self, share: float) -> float:
        """Over the window as it was at most twenty requests ago; infinite where nothing is known."""
        if self._new >= REFRESH or not self._curve:
            self._curve, self._new = survival(self._latencies), 0
            self._quantiles.clear()
        if share not in self._quantiles:
            self._quantiles[share] = quantile(self._curve, share)
        return self._quantiles[share]
