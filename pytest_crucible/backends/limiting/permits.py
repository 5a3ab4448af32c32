"""Permits, which a limiter issues: the part of it that wrappers use."""

from __future__ import annotations

from typing import Protocol

from pytest_crucible.records import Reply


class Permit(Protocol):
    """The right to have one request in flight."""

    def release(self, outcome: Reply | BaseException | None = None) -> None:
        """End the request. Idempotent; it must always be called, because a permit that is kept reduces the limit for good.

        The limiter learns from `outcome`: the reply (its tokens) or the error (a `Retryable` of kind 429, for example).
        Cancellations and None are ignored.
        """


class RefusalJudge(Protocol):
    """Knows how often the server refuses, and counts the time that it costs."""

    def record_wait(self, seconds: float) -> None:
        """Record the seconds for which a request waited for the server's rate."""

    def excuses(self, refusals: int) -> bool:
        """Return whether so many refusals of one request in a row are chance, and not a limit or the request's own fault."""


class SparePermits(Protocol):
    """Permits for spare requests: hedges."""

    def try_spare(self) -> Permit | None:
        """Return a permit for one more request if there is room now. Never waits.

        None while the limiter backs off, paces or pauses, while other requests wait, and when a user limit is reached.
        """
