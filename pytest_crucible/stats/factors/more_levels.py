"""The interval of a crossed mean with more samples, prompts, trainings or rounds, which differ like those that there are.

With more levels of a factor, its level means come more often; with more of another source, they lie closer together, by the part
of their spread that is noise (`power.with_levels`). The distance of the bounds is then Gaffke's over these means (`sources`), so
that the predicted interval is of the kind that a report shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Range, Side, is_finite_range
from pytest_crucible.stats.factors.crossed import CrossedMean
from pytest_crucible.stats.factors.power import expected_half_width, raise_to_floors, with_levels
from pytest_crucible.stats.factors.sources import LevelMeans, Source

MOST_TIMES = 64
"""Designs with more than this many times the levels are not suggested."""
_SIDES: tuple[Side, ...] = ("lower", "upper")


@dataclass(frozen=True)
class NextInterval:
    """The two-sided interval of a mean, by the number of levels of one of its sources; `alpha` is its error rate."""

    mean: CrossedMean
    alpha: float
    bounds: Range | None = None

    def half_width(self, name: str, levels: int) -> float:
        """Return half the width to expect if the source with this name has this number of levels."""
        below, above = self._distances(name, levels)
        low, high = self.mean.estimate - below, self.mean.estimate + above
        if self.bounds is not None:
            low, high = max(low, self.bounds[0]), min(high, self.bounds[1])
        return (high - low) / 2

    def _distances(self, name: str, levels: int) -> tuple[float, float]:
        if self.bounds is None or not is_finite_range(self.bounds):
            half = expected_half_width(self.mean.sources, self.alpha, name, levels)
            return half, half
        before = raise_to_floors(self.mean.sources)
        after = with_levels(before, name, levels)
        parts = [_grow(*part) for part in zip(self.mean.levels, before[1:], after[1:], strict=True)]
        shrink = _shrink(before[0], after[0])
        below, above = (
            math.hypot(shrink * of_samples, *(part.distance(side, self.alpha / 2, self.bounds) for part in parts))
            for side, of_samples in zip(_SIDES, self._of_samples, strict=True)
        )
        return below, above

    @cached_property
    def _of_samples(self) -> tuple[float, float]:
        assert self.bounds is not None
        samples = self.mean.parts[0]
        below, above = (samples.distance(side, self.alpha / 2, self.bounds) for side in _SIDES)
        return below, above


def _grow(part: LevelMeans, before: Source, after: Source) -> LevelMeans:
    """Return the level means of a factor whose part of the variance, or whose number of levels, changes."""
    times, centre = after.levels / before.levels, float(part.values.mean())
    scale = math.sqrt(times * _remaining_share(before, after)) if before.variance else 1.0
    return replace(part, values=centre + scale * (part.values - centre), times=times)


def _shrink(before: Source, after: Source) -> float:
    """Return the factor by which bounds over samples come closer. Those of samples that are alike fall with their number."""
    return math.sqrt(_remaining_share(before, after)) if before.variance else before.levels / after.levels


def _remaining_share(before: Source, after: Source) -> float:
    """Return the part of a source's variance that more levels leave. What is estimated of another source may exceed it."""
    return max(after.variance, 0.0) / before.variance


def fewest_levels_for(half_width: Callable[[int], float], levels: int, goal: float) -> int | None:
    """Return the levels at which an interval is at most this wide; None beyond MOST_TIMES the present ones.

    >>> fewest_levels_for(lambda levels: 1 / levels, levels=3, goal=0.15)
    7
    """
    low, high = levels, levels * MOST_TIMES
    if half_width(high) > goal:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if half_width(middle) > goal else (low, middle)
    return high
