"""Sources of random variation of a mean: samples and the levels of factors, with intervals and bounds over them.

The interval of a mean with several independent sources of random variation, by Banerjee's combination of t intervals.
Half-width^2 = sum of (t_i se_i)^2, with the t quantile of each source's own degrees of freedom (Banerjee 1960, Sankhya
22:357; 1961, Sankhya A 23:359). Its error rate is at most alpha for any sizes of the sources, since the distribution
function of a squared normal variable is concave. Satterthwaite's degrees of freedom for the sum reach 7.9 % at a nominal
5 %, and 2.8 % at 0.5 %, where a source has three levels (docs/decisions/0021).

One-sided bounds of a mean over random factors whose levels need not be normal: Gaffke's bound for each factor.
A prompt in ten that breaks is not seen among three, and a t quantile does not count it: with 3 to 10 levels such bounds err in
9 to 31 % at a nominal 5 %. Gaffke's bound over the levels' means holds given the samples, and the one over the samples' means
holds given the levels. The distance of the bound from the mean is the root of the sum of their squared distances, as that of
independent errors. The interaction of samples and levels is in both, which errs on the safe side.
k levels alike leave a chance of alpha that a share 1 - alpha^(1 / k) of all levels breaks, so that no valid bound over k levels is
closer than that share of the range: 3 levels decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    ROUNDING,
    Array,
    Codes,
    Labels,
    Range,
    Side,
    check_share,
    cluster_codes,
    cluster_totals,
    is_constant,
)
from pytest_crucible.stats.distributions import normal_cdf
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.differences import MeanContrast
from pytest_crucible.stats.means.gaffke import gaffke_bound
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.means.stratified import stratified_mean, weighted_units
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import bracketed_root

FEWEST_LEVELS = 3
"""Levels that a random factor needs for a verdict: with two, the t quantile at 95 % is 12.7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of a mean's random variation, such as the choice of samples or of prompts."""

    name: str
    levels: int
    dof: float
    variance: float
    """The part of the mean's variance that is estimated from this source's levels."""
    floor: float = 0.0
    """The part of `variance` that the samples contain already, so that it is counted once."""


def half_width(sources: Sequence[Source], alpha: float) -> float:
    """Return the half-width of the two-sided interval that errs in at most `alpha`.

    The first source contains the floors of the others. Exact with one source; R: qt(1 - alpha / 2, dof) * se.

    >>> samples = Source(name="samples", levels=50, dof=49, variance=0.0004)
    >>> round(half_width([samples], 0.05), 4)
    0.0402
    >>> round(half_width([samples, Source(name="prompts", levels=5, dof=4, variance=0.0001)], 0.05), 4)
    0.0488
    """
    check_share(alpha, "alpha")
    return _half_width(sources, math.log(alpha / 2))


def p_value(sources: Sequence[Source], distance: float) -> float:
    """Return the smallest alpha at which `half_width` is at most `distance`: the p-value of "the distance is 0".

    >>> round(p_value([Source(name="samples", levels=50, dof=49, variance=0.0004)], 0.0402), 3)
    0.05
    """
    target = abs(distance)
    low, high = math.log(SMALLEST / 2), math.log(0.5)
    # Bisection on the logarithm of the tail: the half-width falls as the tail grows, from infinity to 0.
    while high - low > _RESOLUTION:
        middle = (low + high) / 2
        low, high = (middle, high) if _half_width(sources, middle) > target else (low, middle)
    return min(1.0, 2 * math.exp(high))


SMALLEST = 1e-300
"""A smaller p-value is returned as this, never as 0."""
_RESOLUTION = 1e-12
"""Relative error of a p-value."""


def _half_width(sources: Sequence[Source], log_tail: float) -> float:
    from scipy.special import stdtrit

    dof = np.array([source.dof for source in sources])
    variances = np.array([source.variance for source in sources])
    floors = np.array([source.floor for source in sources])
    squares = np.square(stdtrit(dof, math.exp(log_tail)))
    # Never below 0: by chance, levels may differ less than their floor.
    added = np.maximum(squares * variances - squares[0] * floors, 0.0)
    return math.sqrt(float(added.sum()))


SAMPLES = "samples"
_TURNS = 12
"""Steps of least squares on incomplete tables. Each gains a digit or more if fewer than half of the scores are lost."""


def sample_means(cells: Array) -> Array:
    """Return each sample's mean over its scores; NaN is a lost score.

    >>> sample_means(np.array([[1.0, 0.0], [0.5, np.nan]]))
    array([0.5, 0.5])
    """
    return mean_over(cells, tuple(range(1, cells.ndim)))


def level_means(cells: Array, axis: int) -> Array:
    """Return each sample's mean at each level of the factor on an axis: samples x levels; NaN if all scores are lost."""
    return mean_over(cells, tuple(other for other in range(1, cells.ndim) if other != axis))


def mean_over(cells: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean over some axes without the lost scores; NaN if all are lost."""
    observed = ~np.isnan(cells)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(observed, cells, 0.0).sum(axis=axes) / observed.sum(axis=axes))


def samples_source(means: Array, clusters: Labels | None = None) -> tuple[float, Source]:
    """Return the mean and the samples' part of its variance, from one mean a sample.

    Raises NotEnoughData below two samples, or five clusters.

    >>> mean, samples = samples_source(np.array([0.5, 0.7, 0.6, 0.8]))
    >>> round(mean, 3), round(samples.variance, 5), samples.dof
    (0.65, 0.00417, 3.0)
    """
    if clusters is None:
        if means.size < 2:
            raise NotEnoughData(f"{quantity(means.size, 'sample')}: a mean's uncertainty needs at least 2")
        se = 0.0 if is_constant(means) else standard_error(means)
        return float(means.mean()), Source(name=SAMPLES, levels=means.size, dof=means.size - 1.0, variance=se * se)
    robust = clustered_mean(means, clusters)
    return robust.estimate, Source(name=SAMPLES, levels=robust.clusters, dof=robust.dof, variance=robust.se**2)


def strata_source(means: Array, strata: Codes, clusters: Labels | None = None) -> tuple[float, Source]:
    """Return the mean of the strata's means and the samples' part of its variance, from one mean a sample.

    Raises NotEnoughData for a stratum with fewer than two samples, or groups.
    """
    mean = stratified_mean(means, strata, clusters=None if clusters is None else cluster_codes(clusters, means.size)[0])
    dof = mean.dof if math.isfinite(mean.dof) else means.size - 1.0
    return mean.estimate, Source(name=SAMPLES, levels=means.size, dof=dof, variance=mean.se**2)


def level_source(table: Array, name: str, clusters: Labels | None = None) -> Source:
    """Return the part of one factor, from a table of samples x levels in which NaN is lost.

    The variance is s^2 / levels of the level means. The floor is the part of it that comes from noise and from
    interactions with samples (clusters), which the samples' part contains too. A level without any score does not count.
    """
    table = table[:, ~np.isnan(table).all(axis=0)]
    observed, levels = ~np.isnan(table), table.shape[1]
    if levels < 2:
        return Source(name=name, levels=levels, dof=0.0, variance=0.0)
    means, left = level_effects(table)
    # Lost scores make some levels weigh more in the mean than others, which counts as fewer levels.
    weight = float(np.square((observed / observed.sum(axis=1, keepdims=True)).mean(axis=0)).sum())
    codes, count = (np.arange(len(table)), len(table)) if clusters is None else cluster_codes(clusters, len(table))
    totals = np.stack([cluster_totals(codes, column) for column in (left / observed.sum(axis=0)).T])
    correction = count / (count - 1) / (levels - 1) if count > 1 else 0.0
    return Source(
        name=name,
        levels=levels,
        dof=levels - 1.0,
        # Without this, levels that differ by rounding alone would count as a source of noise.
        variance=float(means.var(ddof=1)) * weight if np.ptp(means) > ROUNDING * np.nanmax(np.abs(table)) else 0.0,
        floor=correction * float(np.square(totals).sum()) * weight,
    )


def level_effects(table: Array) -> tuple[Array, Array]:
    """Return the effect of each level of a table of samples x levels, and the residuals (0 for a lost score).

    Effects are within samples, so that a level does not look better because it lost hard samples.
    """
    observed = ~np.isnan(table)
    left, effects = np.where(observed, table, 0.0), np.zeros(table.shape[1])
    # Alternating least squares: a complete table needs one step.
    for _ in range(1 if observed.all() else _TURNS):
        left = np.where(observed, left - (left.sum(axis=1) / observed.sum(axis=1))[:, None], 0.0)
        step = left.sum(axis=0) / observed.sum(axis=0)
        left, effects = np.where(observed, left - step, 0.0), effects + step
    return effects, left


# The tail of a p-value is found on the normal scale, between these quantiles: from 0.5 to 1e-300.
_CENTRE, _FARTHEST = 0.0, -37.0
_TAIL_RESOLUTION = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMeans:
    """The mean at each level of one factor (or of each sample), as parts of a mean or of a difference."""

    values: Array
    ends: Range | None = None
    """The ends of the values; None: those of the mean itself."""
    clusters: Labels | None = None
    times: float = 1.0
    """How often each value comes, in a plan with more levels."""
    weights: Array | None = None
    """The weight of each value in their mean; None: all alike."""

    def distance(self, side: Side, alpha: float, ends: Range) -> float:
        """Return how far the bound over these values lies from their mean."""
        low, high = self.ends or ends
        # Averages of replies, and effects of incomplete tables, lie beyond their end by a little.
        inside = np.clip(self.values, low, high)
        end, mean = low if side == "lower" else high, float(np.average(inside, weights=self.weights))
        if inside.size < 2:
            return abs(mean - end)
        if self.weights is not None:
            sign = 1.0 if side == "lower" else -1.0
            units = weighted_units(inside, self.weights, self.clusters)
            contrast = MeanContrast((units,), (sign,), (low, high), shares_units=False)
            return max(sign * mean - contrast.lower_bound(alpha), 0.0)
        bound = gaffke_bound(inside, end=end, alpha=alpha, side=side, clusters=self.clusters, times=self.times)
        # At large alphas the bound of skewed values passes their mean.
        return max(mean - bound if side == "lower" else bound - mean, 0.0)


def means_of_levels(table: Array, ends: Range | None = None, sign: float = 1.0) -> LevelMeans:
    """Return the level means of a table of samples x levels, in which NaN is lost; `sign` is -1 for a baseline's own.

    They are within samples, so that a level is not better because it lost hard samples.
    """
    table = table[:, ~np.isnan(table).all(axis=0)]
    if table.shape[1] < 2:
        return LevelMeans(values=sign * np.nanmean(table, axis=0), ends=_mirror(ends, sign))
    observed = ~np.isnan(table)
    sample_means = np.where(observed, table, 0.0).sum(axis=1) / observed.sum(axis=1)
    return LevelMeans(values=sign * (sample_means.mean() + level_effects(table)[0]), ends=_mirror(ends, sign))


def bound_distance(parts: Sequence[LevelMeans], side: Side, alpha: float, ends: Range) -> float:
    """Return how far the bound that counts samples and all factors lies from the mean."""
    return math.hypot(*(part.distance(side, alpha, ends) for part in parts))


def tail_of_distance(parts: Sequence[LevelMeans], side: Side, distance: float, ends: Range) -> float:
    """Return the smallest alpha, up to 1/2, at which the bound on that side is at most this far from the mean."""

    def excess(quantile: float) -> float:
        return distance - bound_distance(parts, side, normal_cdf(quantile), ends)

    at_centre, at_farthest = excess(_CENTRE), excess(_FARTHEST)
    if at_centre <= 0:
        return 0.5
    if at_farthest >= 0:
        return normal_cdf(_FARTHEST)
    # The distance is nearly a straight line of the quantile, which takes few steps.
    root = bracketed_root(excess, _FARTHEST, at_farthest, _CENTRE, at_centre, error=_TAIL_RESOLUTION)
    return normal_cdf(root)


def fewest_levels(best: float, limit: float, end: float, alpha: float) -> int | None:
    """Return the levels with which a one-sided bound can pass a limit at all, if every value is `best`; None if none can.

    `end` is the end of the range on the side of the bound.
    """
    share = (limit - end) / (best - end)
    if share <= 0:
        return 2
    return None if share >= 1 else max(2, math.floor(math.log(alpha) / math.log(share)) + 1)


def _mirror(ends: Range | None, sign: float) -> Range | None:
    return ends if ends is None or sign > 0 else (-ends[1], -ends[0])
