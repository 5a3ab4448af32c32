"""Counts of requests by outcome."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

KEPT = 1000


@dataclass(slots=True)
class Counts:
    """Counts since the start or the last reset."""

    requests: int = 0
    """Requests that came whole."""
    answered: int = 0
    """Answers that were sent whole, of any status."""
    cancelled: int = 0
    """Requests whose client hung up before the answer was sent."""
    concurrent: int = 0
    """Requests that wait for their answer now."""
    most_concurrent: int = 0
    connections: int = 0
    """Connections that were ever opened."""
    open_connections: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    """Answers by status."""
    faults: Counter[str] = field(default_factory=Counter)
    """Failures by kind."""
    models: Counter[str] = field(default_factory=Counter)
    """Requests by model."""
    bodies: Counter[bytes] = field(default_factory=Counter)
    good: Counter[bytes] = field(default_factory=Counter)
    """Bodies that were answered well."""
    started: float = 0.0
    seconds: dict[int, list[int]] = field(default_factory=dict)
    last: deque[tuple[str, dict[str, str], Any]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def come(self, body: bytes, model: str) -> int:
        """A request is here: which attempt of this body it is, from 1."""
        self.requests += 1
        self.concurrent += 1
        if self.concurrent > self.most_concurrent:
            self.most_concurrent = self.concurrent
        self.models[model] += 1
        self.bodies[body] += 1
        self._second()[0] += 1
        return self.bodies[body]

    def count_done(self, body: bytes, status: int, fault: str) -> None:
        self.concurrent -= 1
        self.answered += 1
        self.statuses[str(status)] += 1
        if fault:
            self.faults[fault] += 1
        if status == 200 and fault in ("", "slow"):
            self.good[body] += 1
        if status == 429:
            self._second()[1] += 1

    def count_failure(self, fault: str) -> None:
        """The server itself ended the exchange without a whole answer."""
        self.concurrent -= 1
        self.faults[fault] += 1

    def hung_up(self) -> None:
        """The client did."""
        self.concurrent -= 1
        self.cancelled += 1

    def as_json(self) -> dict[str, Any]:
        """Return the counts as JSON.

        `distinct` are bodies, `repeated` requests with a body that came before, `answered_again` good answers to a
        body that had one; `seconds` has [second, requests, answers of 429] since the first request.
        """
        plain = (
            "requests",
            "answered",
            "cancelled",
            "concurrent",
            "most_concurrent",
            "connections",
            "open_connections",
        )
        return {
            **{name: getattr(self, name) for name in plain},
            "distinct": len(self.bodies),
            "repeated": self.requests - len(self.bodies),
            "answered_again": self.good.total() - len(self.good),
            "statuses": dict(self.statuses),
            "faults": dict(self.faults),
            "models": dict(self.models),
            "seconds": [[second, *both] for second, both in sorted(self.seconds.items())],
        }

    def told_last(self) -> list[dict[str, Any]]:
        """The last requests, as JSON."""
        return [{"path": path, "headers": headers, "body": body} for path, headers, body in self.last]

    def _second(self) -> list[int]:
        now = time.monotonic()
        self.started = self.started or now
        return self.seconds.setdefault(int(now - self.started), [0, 0])
