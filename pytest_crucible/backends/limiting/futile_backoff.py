"""Detects refusals that slowing down does not reduce, so that the limiter stops backing off in vain."""

from __future__ import annotations

import math

# Requests at one level below which the share of refusals is too uncertain to compare.
FEW = 50
# Slowing down has not helped if at half the rate more than this part of the refusals remains.
SAME = 0.8
# Number of recent requests over which the share of refusals is averaged.
MEMORY = 128


class BackoffCheck:
    """Compares the share of refusals at one rate with the share at half that rate.

    Below a true limit nothing is refused, and above it the share falls with the rate. If it does not fall, other clients use up
    the limit or the server refuses at random. Such a share is tolerated until it has not been seen for a while.
    """

    __slots__ = ("mark", "recent", "refused", "sent", "share", "tolerated", "top")

    def __init__(self) -> None:
        self.top = 0.0
        """The rate to return to if backing off is futile; infinite if the rate was not limited before."""
        self.mark = 0.0
        """The rate at which this level began; `share` is the share of refusals one level above."""
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

    def begin(self, rate: float, *, top: float) -> None:
        """Start a descent at this rate, which is higher than where the last one began, or the same again."""
        self.top = top
        self._start_level(rate, math.inf)

    def is_futile(self, rate: float) -> bool:
        """Return whether halving the rate left the share of refusals as it was; `top` is then the rate to return to."""
        if rate > self.mark / 2 or self.sent < FEW:
            return False
        share = self.refused / self.sent
        # Above one half, slowing down is right whatever the cause.
        if not SAME * self.share < share < 0.5:
            self._start_level(rate, share)
            return False
        self.tolerate(share)
        return True

    def tolerate(self, share: float) -> None:
        """Take this share of refusals for unavoidable."""
        # Twice the share: it fluctuates, and another descent in vain would cost more than some refusals.
        self.tolerated, self.recent = 2 * share + 0.01, share

    @property
    def is_tolerable(self) -> bool:
        """True if there are only as many refusals as slowing down cannot avoid."""
        return self.recent < self.tolerated

    def _start_level(self, rate: float, share: float) -> None:
        self.mark, self.share = rate, share
        self.sent = self.refused = 0.0
