"""What a limiter gives, and what those who ask through one see of it."""

from __future__ import annotations

from typing import Protocol

from pytest_crucible.records import Reply


class Lease(Protocol):
    """The right to have one request under way."""

    def release(self, outcome: Reply | BaseException | None = None) -> None:
        """The request is over. Idempotent, and it must be called whatever happens: a lease that is kept is room lost.

        `outcome` is what the limiter learns from: the reply (its tokens), or what the request failed with (a `Retryable`
        that says 429). From cancellations and from None it learns nothing.
        """


class Spares(Protocol):
    """Room for requests that need not be: hedges."""

    def spare(self) -> Lease | None:
        """Room for one request more, now, beside those whose turn it is. Never waits.

        None while the limiter backs off, paces or pauses, while others wait for their turn, and where a limit that the user set
        is reached.
        """
