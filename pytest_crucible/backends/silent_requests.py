"""Counts the requests that a server leaves unanswered: a prompt may hang a server that answers all others."""

from __future__ import annotations

from typing import TypeAlias

from pytest_crucible.records import Request

Key: TypeAlias = tuple[object, ...]

# Kinds of failures in which no model answered in time; a gateway in front of the server says so by a status.
SILENT = frozenset({"timeout", "504", "524"})


def request_key(request: Request) -> Key:
    """Return what the attempts of one request have in common, as other requests of its sample do."""
    return request.experiment, request.arm, request.member, request.sample, request.repeat, request.draw


class SilentRequests:
    """The requests of one server that had no answer since the server last answered any."""

    def __init__(self) -> None:
        self._answers = 0
        self._in_flight = self._peak = 0
        self._first_sent: dict[Key, int] = {}
        """Answers of the server when a request was first sent, until it is answered itself."""
        self._silent: set[Key] = set()
        self.attempts = 0
        """How often they were sent."""

    def __len__(self) -> int:
        return len(self._silent)

    def send(self, key: Key) -> None:
        """Record that an attempt is sent."""
        self._first_sent.setdefault(key, self._answers)
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)

    def end(self) -> None:
        """Record that an attempt is over, whatever came of it."""
        self._in_flight -= 1

    def answer(self, key: Key) -> None:
        """Record an answer, which shows that the server works."""
        self._answers += 1
        self._first_sent.pop(key, None)
        self._silent.clear()
        self.attempts = 0

    def add(self, key: Key) -> None:
        """Record an attempt without an answer, unless it shows nothing about the server.

        If more answers came since the request was first sent than requests were ever in flight, later ones have overtaken it: the
        server was well, and the silence is that of this request alone.
        """
        if self._answers - self._first_sent.get(key, self._answers) <= self._peak:
            self._silent.add(key)
            self.attempts += 1
