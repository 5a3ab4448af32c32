"""Usage: requests, tokens, cost and latency of each arm and each judge, from the counted events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pytest_crucible import stats
from pytest_crucible.records import HELPERS, ArmEvents, Claim, EventCount, LatencySummary, Plan, Quantile, Usage, View
from pytest_crucible.sections import usage_view
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.interval import Interval

decides = False  # no claim of it can fail the session

# The percentiles by which latencies are usually compared.
SHARES = (0.5, 0.9, 0.95, 0.99)
Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usages:
    """Usage of the arms in the order of the plan, and then of the judges."""

    usages: tuple[Usage, ...]
    simulated: frozenset[str]
    """Arms that no model answered."""
    level: float


def compute(inputs: SectionInputs) -> Usages | None:
    """Return the usage of each arm and judge that sent requests or read the cache; None if none did."""
    level = 1 - inputs.alpha
    usages = tuple(_usages(inputs.plan, inputs.stored.events(), level=level))
    simulated = frozenset(arm.name for arm in inputs.plan.arms if arm.simulated)
    return Usages(usages=usages, simulated=simulated, level=level) if usages else None


def claims(usages: Usages) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(usages: Usages, claims: Sequence[Claim]) -> View:
    """Return a table of requests and cost, one of percentiles, and notes on unknown values."""
    # Scripted arms cost nothing, and need no line.
    called = [usage for usage in usages.usages if usage.arm not in usages.simulated and usage.sent]
    return usage_view.usage_view(usages.usages, called, level=usages.level)


def _usages(plan: Plan, events: Mapping[str, ArmEvents], *, level: float) -> Iterator[Usage]:
    helpers = sorted(name for name in events if name.startswith(HELPERS))
    for name in (*(arm.name for arm in plan.arms), *helpers):
        if name in events:
            yield summarize_usage(name, events[name], level=level)


def summarize_usage(arm: str, events: ArmEvents, *, level: float) -> Usage:
    """Return counts, sums and percentiles of one arm.

    Percentiles of latency are those of answered requests. A cancelled request took at least as long as it lived, and its
    full latency is unknown: it is counted, but its time is left out.
    """
    stopped = [count for count in events.counts if count.name == "request.stop"]
    answered = [count for count in stopped if count.error is None]
    cancelled = [count for count in stopped if count.error == "cancelled"]
    # `request.stop` is counted, because `request.start` is not stored.
    sent, hedged = _total(stopped), _number(events, "hedge.fired")
    return Usage(
        arm=arm,
        sent=sent,
        answered=_total(answered),
        failed={str(count.error): count.n for count in stopped if count not in answered and count not in cancelled},
        cancelled=_total(cancelled),
        retried=_number(events, "request.retry"),
        hedged=hedged,
        hedges_won=_number(events, "hedge.won"),
        cached=_number(events, "cache.hit"),
        input_tokens=_sum_known([count.input_tokens for count in stopped]),
        output_tokens=_sum_known([count.output_tokens for count in stopped]),
        uncounted=sum(count.n - count.counted for count in answered),
        cost_usd=_sum_known([count.cost_usd for count in stopped]),
        unpriced=sum(count.n - count.priced for count in (*answered, *cancelled)),
        latency=_summary(events.latencies, level),
        first_token=_summary(events.first_tokens, level),
        waited=_waiting_time(events.waits, turns=sent - hedged),
        seconds=max((count.last for count in stopped), default=0.0)
        - min((count.first for count in stopped), default=0.0),
    )


def _total(counts: Sequence[EventCount]) -> int:
    return sum(count.n for count in counts)


def _sum_known(amounts: Sequence[Amount | None]) -> Amount | None:
    """Return the sum of the known amounts; None if none is known."""
    terms = [amount for amount in amounts if amount is not None]
    return sum(terms[1:], terms[0]) if terms else None


def _number(events: ArmEvents, name: str) -> int:
    return sum(count.n for count in events.counts if count.name == name)


def _waiting_time(waits: Sequence[float], *, turns: int) -> LatencySummary | None:
    """Return the waiting time over all turns. A turn without an event did not wait; a hedge takes no turn.

    Without intervals: requests that wait at the same time wait for the same reason, so waits are not independent.
    """
    if not waits:
        return None
    return _summary(np.concatenate([np.zeros(max(0, turns - len(waits))), np.asarray(waits)]), None)


def _summary(seconds: npt.ArrayLike, level: float | None) -> LatencySummary | None:
    values = np.sort(np.asarray(seconds, dtype=np.float64))
    if not values.size:
        return None
    quantiles = tuple(
        Quantile(share=share, value=float(value), interval=_interval(values, share, level))
        for share, value in zip(SHARES, np.quantile(values, SHARES), strict=True)
    )
    return LatencySummary(n=values.size, quantiles=quantiles)


def _interval(values: npt.NDArray[np.float64], share: float, level: float | None) -> Interval | None:
    return None if level is None else stats.quantile_interval(values, share, level=level)
