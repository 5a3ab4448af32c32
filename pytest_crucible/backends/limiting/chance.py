"""Tells refusals by chance from a limit: servers refuse some requests at any rate."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

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


# Requests that are remembered one by one; of older ones only their counts.
REMEMBERED = 256
# Accepted requests assumed before the first, so that a server that refuses everything from the start is noticed, too.
_HISTORY_PRIOR = 8.0
# Log-likelihood ratio from which the share of refusals has risen: three refusals in a row after 64 accepted requests. Of runs of
# 300 requests on a server that refuses by chance, 1 in 300 reaches it (simulated for shares of 2 to 30 %).
_CLUSTER_EVIDENCE = 12.0
# Fewer refusals in a row are chance on any server.
FEWEST = 3
# A request that is refused so often in a row that chance explains it once in a million is refused for what it is.
RARE = 1e-6


@dataclass(slots=True)
class Sent:
    """A request in flight, with the state that its end is compared with."""

    at: float
    crowd: float
    """How many were in flight when it was sent, with it."""
    paced: bool
    """Whether the next request had to wait for the rate: only then does its acceptance show what the server allows."""
    charged: float
    """The tokens it is expected to use."""
    spare: bool
    settled: bool = False
    """Whether it is known to be accepted, or has ended."""
    refused: bool = False


class RefusalHistory:
    """The latest requests of this process in the order in which they were sent.

    Servers refuse at once and answer later. So a request that has neither answer nor refusal when a later one is refused counts as
    accepted; in the order of their ends, the refusals of each burst of requests would come before all its answers.
    """

    def __init__(self) -> None:
        self._fates: deque[Sent] = deque()
        self._sent, self._refused = _HISTORY_PRIOR, 0.0
        """Counts of requests that are no longer remembered."""
        self._since = -math.inf
        self._all_sent, self._all_refused = 0.0, 0.0
        """Counts of all requests, older ones with less weight."""

    def add(self, sent: Sent) -> None:
        """Record that a request is sent."""
        self._all_sent += 1
        self._fates.append(sent)
        if len(self._fates) > REMEMBERED:
            self._forget(self._fates.popleft())

    def find_cluster(self, now: float, sent: Sent) -> float | None:
        """Record a refusal; return the share of refusals before they began to cluster, None if they do not cluster.

        A few before are no share: 0. The history begins again after a cluster.
        """
        sent.refused = True
        self._all_refused += 1
        if sent.at < self._since:
            return None
        evidence, before = self._strongest_rise()
        if evidence < _CLUSTER_EVIDENCE:
            return None
        self._fates.clear()
        self._sent, self._refused, self._since = _HISTORY_PRIOR, 0.0, now
        return before

    def explains(self, refusals: int) -> bool:
        """Return whether so many refusals of one request in a row are chance, at the share at which others are refused."""
        share = (self._all_refused - refusals + 2) / (self._all_sent - refusals + 4)
        return share**refusals >= RARE

    def _forget(self, fate: Sent) -> None:
        if self._all_sent > 2 * REMEMBERED:
            self._all_sent, self._all_refused = self._all_sent / 2, self._all_refused / 2
        self._sent += 1
        self._refused += fate.refused
        if self._sent > REMEMBERED:
            self._sent, self._refused = self._sent / 2, self._refused / 2

    def _strongest_rise(self) -> tuple[float, float]:
        """Return the largest log-likelihood ratio of two shares against one, over all moments of change, and the first share."""
        # What was sent after the last refusal may still be refused.
        fates = list(self._fates)
        while fates and not fates[-1].refused:
            fates.pop()
        all_sent, all_refused = self._sent + len(fates), self._refused + sum(fate.refused for fate in fates)
        evidence, share_before, refused = 0.0, 0.0, 0.0
        for number, fate in enumerate(reversed(fates), 1):
            if not fate.refused:
                continue
            refused += 1
            before = (all_refused - refused) / (all_sent - number)
            if refused >= FEWEST and refused / number > before:
                ratio = _gain(refused, number, all_refused / all_sent)
                ratio += _gain(all_refused - refused, all_sent - number, all_refused / all_sent)
                if ratio > evidence:
                    evidence, share_before = ratio, before if all_refused - refused >= FEWEST else 0.0
        return evidence, share_before


def _gain(refused: float, sent: float, share: float) -> float:
    """Return the log-likelihood of the observed share over that of `share`.

    >>> _gain(5, 10, 0.5)
    0.0
    """
    accepted = sent - refused
    gain = refused * math.log(refused / sent / share) if refused else 0.0
    return gain + (accepted * math.log(accepted / sent / (1 - share)) if accepted else 0.0)
