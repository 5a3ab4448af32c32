"""What it took to ask an arm: events as they were counted, and what they come to."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_crucible.records.statistics import Interval

BUDGET = "budget"
"""The name of the event that tells what was spent by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent:
    """What was spent of a budget: the run's, or that of an experiment."""

    experiment: str
    """Its nodeid; empty for the run's."""
    budget: str
    """As it was written."""
    usd: float
    """Of requests whose price is known."""
    tokens: float
    requests: float
    said: str
    """In the units that are limited."""


JUDGE = "judge:"
"""Begins the name under which a judge's requests are told: it is an arm of no plan."""


def judge_arm(adapter: str) -> str:
    """The name of an adapter where it judges.

    >>> judge_arm("gpt")
    'judge:gpt'
    """
    return f"{JUDGE}{adapter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCount:
    """Events of one arm that have name and error in common."""

    name: str
    error: str | None
    n: int
    counted: int = 0
    """How many told tokens."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    priced: int = 0
    """How many told a cost."""
    cost_usd: float | None = None
    first: float = 0.0
    """When the first of them began, in seconds since 1970."""
    last: float = 0.0
    """When the last of them was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvents:
    """All that was told of one arm. Durations are in seconds, one of each event that had one."""

    counts: tuple[EventCount, ...]
    latencies: array[float] = field(default_factory=lambda: array("d"))
    """Of requests that were answered."""
    first_tokens: array[float] = field(default_factory=lambda: array("d"))
    waits: array[float] = field(default_factory=lambda: array("d"))
    """For a turn. A wait of less than a millisecond is not told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """One quantile of a sample, linear between order statistics (type 7), with its interval where it has one."""

    share: float
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long something took, in seconds: the 50th, 90th, 95th and 99th percentile."""

    n: int
    quantiles: tuple[Quantile, ...]

    def at(self, share: float) -> float:
        """The value of one of the quantiles."""
        return next(one.value for one in self.quantiles if one.share == share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What it took to ask one arm. Requests are counted as they were sent: a hedge is one, each retry is one."""

    arm: str
    sent: int
    answered: int
    failed: Mapping[str, int]
    """Class of error, such as `429` or `timeout`, to count."""
    cancelled: int
    """Losers of hedges, and what was in flight when a sample timed out. Their latency is unknown, so it is in no percentile."""
    retried: int
    hedged: int
    hedges_won: int
    cached: int
    """Replies that were read from the cache: nothing was sent."""
    input_tokens: int | None
    """Of all requests that told it; None where none did."""
    output_tokens: int | None
    uncounted: int
    """Answered requests that told no tokens."""
    cost_usd: float | None
    """Of all requests whose cost is known; None where none is."""
    unpriced: int
    """Answered and cancelled requests whose cost is unknown."""
    latency: Spread | None
    """From sending a request to its answer, of those that were answered: without waiting for a turn, without failed attempts."""
    first_token: Spread | None
    waited: Spread | None
    """For a turn, over all turns: most may not have waited at all. None where nobody did."""
    seconds: float
    """From the first request sent to the last one over."""

    @property
    def throughput(self) -> float | None:
        """Answers a second."""
        return self.answered / self.seconds if self.seconds > 0 else None
