"""What it took to ask an arm, from what was told of its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pytest_crucible import stats
from pytest_crucible.records import JUDGE, ArmEvents, EventCount, Interval, Plan, Quantile, Spread, Usage

SHARES = (0.5, 0.9, 0.95, 0.99)
Amount = TypeVar("Amount", int, float)


def usages(plan: Plan, told: Mapping[tuple[str, str], ArmEvents], *, level: float) -> tuple[Usage, ...]:
    """Of each arm of an experiment of which something was told, in the order of the arms, and of each judge."""
    judges = sorted(arm for nodeid, arm in told if nodeid == plan.nodeid and arm.startswith(JUDGE))
    found = [(name, told.get((plan.nodeid, name))) for name in (*(arm.name for arm in plan.arms), *judges)]
    return tuple(usage(name, events, level=level) for name, events in found if events is not None)


def usage(arm: str, events: ArmEvents, *, level: float) -> Usage:
    """Counts, sums and percentiles of one arm.

    Percentiles of latency are those of the requests that were answered. A cancelled request took at least as long as it
    lived, and nobody knows how long it would have taken: it is counted, and its time is not.
    """
    over = [one for one in events.counts if one.name == "request.stop"]
    answered = [one for one in over if one.error is None]
    cancelled = [one for one in over if one.error == "cancelled"]
    sent, hedged = _sum(over), _named(events, "hedge.fired")
    return Usage(
        arm=arm,
        sent=sent,
        answered=_sum(answered),
        failed={str(one.error): one.n for one in over if one not in answered and one not in cancelled},
        cancelled=_sum(cancelled),
        retried=_named(events, "request.retry"),
        hedged=hedged,
        hedges_won=_named(events, "hedge.won"),
        cached=_named(events, "cache.hit"),
        input_tokens=_known([one.input_tokens for one in over]),
        output_tokens=_known([one.output_tokens for one in over]),
        uncounted=sum(one.n - one.counted for one in answered),
        cost_usd=_known([one.cost_usd for one in over]),
        unpriced=sum(one.n - one.priced for one in (*answered, *cancelled)),
        latency=_spread(events.latencies, level),
        first_token=_spread(events.first_tokens, level),
        waited=_waited(events.waits, turns=sent - hedged),
        seconds=max((one.last for one in over), default=0.0) - min((one.first for one in over), default=0.0),
    )


def _sum(counts: Sequence[EventCount]) -> int:
    return sum(one.n for one in counts)


def _known(amounts: Sequence[Amount | None]) -> Amount | None:
    """The sum of what is known; None where nothing is."""
    known = [one for one in amounts if one is not None]
    return sum(known[1:], known[0]) if known else None


def _named(events: ArmEvents, name: str) -> int:
    return sum(one.n for one in events.counts if one.name == name)


def _waited(waits: Sequence[float], *, turns: int) -> Spread | None:
    """Over all turns: whoever told of no wait had his turn at once. A hedge takes none, it goes out only where there is room.

    No interval: who comes while others wait, waits as they do.
    """
    if not waits:
        return None
    return _spread(np.concatenate([np.zeros(max(0, turns - len(waits))), np.asarray(waits)]), None)


def _spread(seconds: npt.ArrayLike, level: float | None) -> Spread | None:
    values = np.sort(np.asarray(seconds, dtype=np.float64))
    if not values.size:
        return None
    found = np.quantile(values, SHARES)
    quantiles = tuple(
        Quantile(share=share, value=float(value), interval=_interval(values, share, level))
        for share, value in zip(SHARES, found, strict=True)
    )
    return Spread(n=values.size, quantiles=quantiles)


def _interval(values: npt.NDArray[np.float64], share: float, level: float | None) -> Interval | None:
    return None if level is None else stats.quantile_interval(values, share, level=level)
