"""A record of the requests to a server: refusals that cluster, the time that waiting has cost, and limits in headers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from pytest_crucible.backends.limiting.control import Control, Sent
from pytest_crucible.quick_dataclass import dataclass

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
        self._all_sent += 1
        self._fates.append(sent)
        if len(self._fates) > REMEMBERED:
            self._forget(self._fates.popleft())

    def find_cluster(self, now: float, sent: Sent) -> float | None:
        """Record a refusal; return the share of refusals before they began to cluster (0 of a few), None if they do not."""
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
    """Return the log-likelihood of the observed share over that of `share`."""
    accepted = sent - refused
    gain = refused * math.log(refused / sent / share) if refused else 0.0
    return gain + (accepted * math.log(accepted / sent / (1 - share)) if accepted else 0.0)


# A smaller part of the time is not worth a sentence.
NOTICEABLE = 0.1


@dataclass(slots=True)
class Load:
    """Counts of the requests of this process, and of their seconds."""

    sent: int = 0
    refused: int = 0
    waited_s: float = 0.0
    """In the limiter's queue, and after refusals."""
    in_flight_s: float = 0.0
    cause: str = ""
    """What the server does, as the limiter has learned it: `it allows about 50 requests/s`."""

    @property
    def waiting_share(self) -> float:
        total = self.waited_s + self.in_flight_s
        return self.waited_s / total if total else 0.0

    @property
    def refused_share(self) -> float:
        return self.refused / self.sent if self.sent else 0.0


def total_load(loads: Iterable[Load]) -> Load:
    """Return the sum of the loads of several servers; the cause is that of the one that was waited for longest."""
    parts = sorted(loads, key=lambda load: -load.waited_s)
    names = ("sent", "refused", "waited_s", "in_flight_s")
    sums = {name: sum(getattr(load, name) for load in parts) for name in names}
    return Load(**sums, cause=parts[0].cause if parts else "")


def explain_load(load: Load) -> str:
    """Return the sentence for the end of a run; empty if hardly any time was spent waiting.

    >>> explain_load(Load(300, 45, 61.0, 39.0, "it refuses 15 % at any rate"))
    "waiting for the server's rate was 61 % of the time: it refuses 15 % at any rate"
    """
    if load.waiting_share < NOTICEABLE or not load.cause:
        return ""
    return f"waiting for the server's rate was {100 * load.waiting_share:.0f} % of the time: {load.cause}"


def describe_limit(control: Control, refused_share: float) -> str:
    """Return what the limiter has learned of a server; empty if it refuses nothing."""
    pacing, window = control.pacing, control.window
    chance = f" and refuses {100 * pacing.chance.share:.0f} % at any rate" if pacing.chance.share else ""
    if window.size < math.inf and window.cubic.limit < math.inf:
        return f"it allows about {min(window.most, window.cubic.limit):.0f} requests at a time{chance}"
    rate = min(pacing.most, pacing.server_limit, pacing.cubic.limit)
    if rate < math.inf:
        return f"it allows about {rate:.2g} requests/s{chance}"
    if control.token_meter.server_limit < math.inf or control.token_meter.most < math.inf:
        return f"it allows {min(control.token_meter.server_limit, control.token_meter.most):,.0f} tokens a minute"
    return f"it refuses {100 * refused_share:.0f} % at any rate" if refused_share else ""


# A second, a minute, an hour, a day.
PERIODS_S = (1, 60, 3600, 86400)
# Largest relative difference of two readings that agree.
AGREES = 0.1
# Usage below this is not conclusive: the reported times are rounded.
FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLimits:
    """The `x-ratelimit-*` headers of one response, which do not name their period: a minute, mostly, or a day."""

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    """Seconds until all requests are available again."""
    reset_tokens_s: float | None = None


def certain_rate(limit: int | None, remaining: int | None, reset_s: float | None) -> float | None:
    """Return the requests (or tokens) per second that the headers allow; None if they do not agree.

    >>> certain_rate(limit=3000, remaining=2990, reset_s=0.2)
    50.0
    """
    # A small usage is dominated by the rounding of the reset time.
    if limit is None or remaining is None or not reset_s or limit - remaining < FEW:
        return None
    back = (limit - remaining) / reset_s
    return next((limit / period for period in PERIODS_S if abs(back * period / limit - 1) <= AGREES), None)
