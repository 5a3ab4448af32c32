"""Usage of an arm: counted events, and the requests, tokens, cost and time that follow from them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import field

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.interval import Interval

# The name of the event with the amounts spent so far.
BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent:
    """The part of a budget that a run or an experiment has spent."""

    experiment: str
    """Its nodeid; empty for the run's."""
    budget: str
    """The budget's text as the user wrote it."""
    usd: float
    """The cost of the requests whose price is known."""
    tokens: float
    requests: float
    said: str
    """The expenses as text, in the units that the budget limits."""


JUDGE, PARAPHRASER, ROLE = "judge:", "paraphraser:", "role:"
HELPERS = (JUDGE, PARAPHRASER, ROLE)
"""Prefixes of the names under which requests of models that are not an arm of any plan are recorded, by their role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCount:
    """Events of one arm that have name and error in common."""

    name: str
    error: str | None
    n: int
    counted: int = 0
    """The number of events that reported tokens."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    priced: int = 0
    """The number of events that reported a cost."""
    cost_usd: float | None = None
    first: float = 0.0
    """When the first of them began, in seconds since 1970."""
    last: float = 0.0
    """When the last of them was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvents:
    """Recorded events of one arm. Durations are in seconds, one for each event that has one."""

    counts: tuple[EventCount, ...]
    latencies: array[float] = field(default_factory=lambda: array("d"))
    """Seconds of each request that got a response."""
    first_tokens: array[float] = field(default_factory=lambda: array("d"))
    waits: array[float] = field(default_factory=lambda: array("d"))
    """Seconds that requests waited for a turn, without waits below a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """One quantile of a sample, linear between order statistics (type 7), with its interval where it has one."""

    share: float
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """Percentiles of a duration in seconds: the 50th, 90th, 95th and 99th."""

    n: int
    quantiles: tuple[Quantile, ...]

    def at(self, share: float) -> float:
        """Return the value of one of the quantiles."""
        return next(quantile.value for quantile in self.quantiles if quantile.share == share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Requests, tokens, cost and latency of one arm. Each hedge and each retry counts as a request."""

    arm: str
    sent: int
    answered: int
    failed: Mapping[str, int]
    """Class of error, such as `429` or `timeout`, to count."""
    cancelled: int
    """Losers of hedges, and requests in flight when a sample timed out. Their latency is unknown, so no percentile has it."""
    retried: int
    hedged: int
    hedges_won: int
    cached: int
    """Replies that were read from the cache: nothing was sent."""
    input_tokens: int | None
    """Sum over the requests that reported it; None if none did."""
    output_tokens: int | None
    uncounted: int
    """Answered requests that reported no tokens."""
    cost_usd: float | None
    """Sum over the requests whose cost is known; None if none is."""
    unpriced: int
    """Answered and cancelled requests whose cost is unknown."""
    latency: LatencySummary | None
    """From sending a request to its reply, of those that were answered: without rate limit wait, without failed attempts."""
    first_token: LatencySummary | None
    waited: LatencySummary | None
    """Waiting time for a turn, over all turns: most may not have waited at all. None if none did."""
    seconds: float
    """From the first request sent to the last one over."""

    @property
    def throughput(self) -> float | None:
        """Replies a second."""
        return self.answered / self.seconds if self.seconds > 0 else None
