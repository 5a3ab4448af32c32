"""Putting a question to a method: an answer inside the metric's bounds, or none and the reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.stats.declared import Observed
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.methods import Tested
from pytest_crucible.stats.observations import Range, Side

IntervalMethod = Callable[[Observed, float], Tested]
OneSidedMethod = Callable[[Observed, float, Side], float | None]

NO_VARIATION = "the values do not vary and the metric has no bounds: nothing limits what was not seen"


def ask_interval(method: IntervalMethod, seen: Observed, level: float) -> tuple[Tested, str]:
    """The method's answer with its interval cut to the bounds, and a note that says why there is no interval."""
    try:
        tested = method(seen, level)
    except NotEnoughData as refusal:
        return Tested(interval=None, p_value=None), str(refusal)
    if tested.interval is None:
        return tested, NO_VARIATION
    low, high = (_inside(end, seen.bounds) for end in (tested.interval.low, tested.interval.high))
    return replace(tested, interval=replace(tested.interval, low=low, high=high)), ""


def ask_one_sided(method: OneSidedMethod, seen: Observed, alpha: float, side: Side) -> tuple[float | None, str]:
    """The method's bound, cut to the bounds of the metric, and a note that says why there is none."""
    try:
        value = method(seen, alpha, side)
    except NotEnoughData as refusal:
        return None, str(refusal)
    return (None, NO_VARIATION) if value is None else (_inside(value, seen.bounds), "")


def spread(seen: Observed) -> float | None:
    """Standard deviation, for clustered values sqrt(n) * se: what the power functions want. None when unknown."""
    if seen.clusters is None:
        return float(seen.values.std(ddof=1)) if seen.values.size > 1 else None
    try:
        return math.sqrt(seen.values.size) * clustered_mean(seen.values, seen.clusters).se
    except NotEnoughData:
        return None


def _inside(value: float, bounds: Range) -> float:
    return min(max(value, bounds[0]), bounds[1])
