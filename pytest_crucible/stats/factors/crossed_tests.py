"""Interval, p-values and one-sided bounds of a mean over crossed random factors.

Bounds of bounded values hold for levels of any distribution (`level_bounds`), and intervals are such bounds. The p-value of a
regression gate, and everything about values without bounds, takes the levels of each factor for normal (`sources`).
"""

from __future__ import annotations

from pytest_crucible.stats.arrays import Range, Side, check_share, is_finite_range
from pytest_crucible.stats.factors.crossed import CrossedMean
from pytest_crucible.stats.factors.level_bounds import bound_distance, tail_of_distance
from pytest_crucible.stats.factors.sources import half_width, p_value
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.moments import equal_differences_p_value, point_mass_p_value
from pytest_crucible.stats.results import Bounds

NORMAL = "crossed t"
BY_LEVELS = "gaffke over levels"
_SIDES: tuple[Side, ...] = ("lower", "upper")


def crossed_interval(mean: CrossedMean, *, level: float = 0.95, bounds: Range | None = None) -> Interval | None:
    """Return the two-sided interval: the bounds at half of the error rate each. None if nothing varies and no bounds are known."""
    check_share(level, "level")
    ends = crossed_bounds(mean, alpha=(1 - level) / 2, bounds=bounds)
    if ends.low is None or ends.high is None:
        return None
    return Interval(low=ends.low, high=ends.high, level=level, method=ends.method)


def crossed_p_value(mean: CrossedMean, *, bounds: Range | None = None) -> float:
    """Return the two-sided p-value of "the mean is 0" for normal levels; where nothing varies, that of equal differences."""
    if not _is_constant(mean):
        return p_value(mean.sources, mean.estimate)
    flipped = equal_differences_p_value(mean.estimate, _units(mean))
    if bounds is None or not is_finite_range(bounds):
        return flipped
    return max(flipped, point_mass_p_value(mean.estimate, _units(mean), bounds=bounds))


def crossed_proof_p(mean: CrossedMean, *, bounds: Range) -> float:
    """Return the two-sided p-value of `crossed_bounds` for "the mean is 0": twice the smaller one of the two bounds, at most 1.

    Raises ValueError for infinite bounds, with which nothing is proven.
    """
    if not is_finite_range(bounds):
        raise ValueError(f"a proof needs finite bounds of the values, not {bounds!r}")
    if not mean.estimate:
        return 1.0
    side: Side = "lower" if mean.estimate > 0 else "upper"
    return min(1.0, 2 * tail_of_distance(mean.parts, side, abs(mean.estimate), bounds))


def crossed_bounds(mean: CrossedMean, *, alpha: float, bounds: Range | None = None) -> Bounds:
    """Return the two one-sided bounds at `alpha` each, by which a margin or a target is decided.

    With finite `bounds` of the values they hold for any distribution of samples and levels; without, for normal ones. None if
    nothing varies and no bounds are known.
    """
    check_share(alpha, "alpha")
    if bounds is not None and is_finite_range(bounds):
        below, above = (bound_distance(mean.parts, side, alpha, bounds) for side in _SIDES)
        low, high = max(mean.estimate - below, bounds[0]), min(mean.estimate + above, bounds[1])
        return Bounds(low=low, high=high, method=BY_LEVELS)
    if _is_constant(mean):
        return Bounds(low=None, high=None, method=NORMAL)
    half = half_width(mean.sources, min(2 * alpha, 0.999))
    low, high = mean.estimate - half, mean.estimate + half
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Bounds(low=low, high=high, method=NORMAL)


def _is_constant(mean: CrossedMean) -> bool:
    return not any(source.variance for source in mean.sources)


def _units(mean: CrossedMean) -> int:
    return mean.sources[0].levels
