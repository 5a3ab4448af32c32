"""Does asking more slowly help? Refusals that grow no fewer have another cause, and slowness is no remedy."""

from __future__ import annotations

import math

FEW = 50
"""Requests at one level that say nothing yet about the share that is refused."""
SAME = 0.8
"""Of the share at twice the rate: what is left of it when slowing down has not helped."""
MEMORY = 128
"""Requests over which the recent share is averaged."""


class Descent:
    """Compares the share of refusals at one rate with that at half of it.

    Below a true limit none are left, and above it the share falls with the rate. Where it stays, a limit is shared with others,
    or the server refuses by chance: then a share of this size is tolerated, until it has not been seen for long.
    """

    __slots__ = ("mark", "recent", "refused", "sent", "share", "tolerated", "top")

    def __init__(self) -> None:
        self.top = 0.0
        """The rate from which the descent began."""
        self.mark = 0.0
        """The rate at which this level began, and the share that was refused at the level above."""
        self.share = math.inf
        self.sent = 0.0
        self.refused = 0.0
        self.recent = 0.0
        self.tolerated = 0.0

    def send(self) -> None:
        self.sent += 1
        self.recent *= 1 - 1 / MEMORY
        self.tolerated *= 1 - 1 / (32 * MEMORY)

    def refuse(self) -> None:
        self.refused += 1
        self.recent += 1 / MEMORY

    def begin(self, rate: float) -> None:
        """The rate is higher than where the descent began, or goes back to it."""
        self.top = rate
        self._level(rate, math.inf)

    def in_vain(self, rate: float) -> bool:
        """At half the rate of the last level: was as large a share refused? Then `top` is the rate to go back to."""
        if rate > self.mark / 2 or self.sent < FEW:
            return False
        share = self.refused / self.sent
        if not SAME * self.share < share < 0.5:
            self._level(rate, share)
            return False
        self.tolerated = 2 * share + 0.01
        return True

    @property
    def bearable(self) -> bool:
        """Are there no more refusals than those that slowness does not help against?"""
        return self.recent < self.tolerated

    def _level(self, rate: float, share: float) -> None:
        self.mark, self.share = rate, share
        self.sent = self.refused = 0.0
