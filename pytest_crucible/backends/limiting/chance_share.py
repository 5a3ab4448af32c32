"""The share of requests that a server refuses at any rate, and a test whether more than that are refused."""

from __future__ import annotations

import math

# The share of accepted requests that would be refused, too, if the rate was a quarter above the limit: the test (CUSUM, Page 1954)
# finds such an excess in some 40 requests.
EXCESS = 0.2
# Evidence from which more than chance is refused: by chance once in some 2,000 requests.
EVIDENCE = 5.0
# Accepted requests assumed before the first: few requests show little.
PRIOR = 5.0
# Requests over which the share is averaged, to follow a server that refuses less than before.
MEMORY = 512


class ChanceShare:
    """The share of refusals that slowing down does not avoid: 0 until it was found to be the same at two rates."""

    __slots__ = ("evidence", "recent", "run_refused", "run_sent", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self.recent = 0.0
        self.evidence = 0.0
        self.run_sent = 0.0
        """Requests since the evidence was last 0, with `run_refused` refused ones."""
        self.run_refused = 0.0

    def adopt(self, share: float) -> None:
        """Take this share of refusals for chance."""
        self.share = self.recent = share
        self.restart()

    def restart(self) -> None:
        """Begin the test again, after the rate has changed."""
        self.evidence = self.run_sent = self.run_refused = 0.0

    def send(self) -> None:
        """Record a request, which counts as accepted until it is refused."""
        if not self.share:
            return
        self.recent *= 1 - 1 / MEMORY
        # Downwards only: a share that followed refusals upwards would let the rate grow without end.
        self.share = min(self.share, self.recent + 1 / MEMORY)
        self.run_sent += 1
        self.evidence -= self._accepted_weight()
        if self.evidence <= 0:
            self.restart()

    def refuse(self) -> bool:
        """Record a refusal; return whether more than chance is refused."""
        if not self.share:
            return True
        self.recent += 1 / MEMORY
        self.run_refused += 1
        self.evidence += self._accepted_weight() + math.log1p(EXCESS * (1 - self.share) / self.share)
        return self.evidence >= EVIDENCE

    def accepted_part(self) -> float:
        """Return the part of the latest requests that would not be refused at a lower rate."""
        if not self.share:
            return 1.0
        return (1 - self.run_refused / (self.run_sent + PRIOR)) / (1 - self.share)

    def _accepted_weight(self) -> float:
        return -math.log1p(-EXCESS)
