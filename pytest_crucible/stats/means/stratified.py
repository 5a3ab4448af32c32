"""The mean of the means of strata, such as the tasks of a suite, when these strata and no others are meant.

Each stratum counts 1/K, whatever its size, so that the variance is the sum of those of its means over K^2 (Cochran 1977,
Sampling Techniques, 5.9). The variance of a mean is CR2 over its clusters; of independent samples that is s^2 / n.
"""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes, Labels, check_share
from pytest_crucible.stats.distributions import normal_quantile, t_quantile
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.means.differences import UnitSums
from pytest_crucible.stats.means.moments import t_interval
from pytest_crucible.stats.number_format import quantity

WILSON = "wilson, stratified"
T = "t, stratified"


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedMean:
    """The mean of the strata's means, with its standard error; `se` is 0 when nothing varies within any of them."""

    estimate: float
    se: float
    dof: float
    """Welch's, over the strata; infinite when nothing varies."""
    units: float
    """As many independent samples in strata of equal size have this precision, if all vary alike."""
    means: Array
    """One a stratum."""


def stratified_mean(
    values: Array, strata: Codes, *, sizes: Array | None = None, clusters: Codes | None = None
) -> StratifiedMean:
    """Return the mean of the means of strata 0, 1, ..., in which samples count by their `sizes`, or alike.

    Raises NotEnoughData for a stratum with fewer than two samples, or clusters, and below five clusters.

    >>> mean = stratified_mean(np.array([1.0, 0, 1, 1, 0, 1]), np.array([0, 0, 1, 1, 1, 1]))
    >>> mean.estimate, round(mean.se, 4)
    (0.625, 0.2795)
    """
    weights = stratum_weights(strata, sizes)
    count = int(strata.max()) + 1
    means = np.asarray(count * np.bincount(strata, weights=weights * values), dtype=np.float64)
    labels = np.arange(values.size) if clusters is None else check_clustered(values, clusters)[1]
    # One row for each cluster in each stratum: a cluster may lie in several.
    pairs, rows = np.unique(np.stack([strata, labels]), axis=1, return_inverse=True)
    rows = rows.ravel()
    of_strata = np.bincount(pairs[0], minlength=count)
    if of_strata.min() < 2:
        noun = "sample" if clusters is None else "group"
        raise NotEnoughData(f"{quantity(int(of_strata.min()), noun)} in a slice: its variance needs at least 2")
    shares = count * np.bincount(rows, weights=weights)
    parts = np.bincount(rows, weights=weights * (values - means[strata])) / np.sqrt(1 - shares)
    variances = np.bincount(pairs[0], weights=parts**2, minlength=count)
    se = math.hypot(*np.bincount(np.unique(pairs[1], return_inverse=True)[1].ravel(), weights=parts).tolist())
    welch = float((variances**2 / (of_strata - 1)).sum())
    return StratifiedMean(
        estimate=float(means.mean()),
        se=se if variances.sum() > np.finfo(np.float64).eps * float(np.abs(values).max()) ** 2 else 0.0,
        dof=float(variances.sum()) ** 2 / welch if welch else math.inf,
        units=1 / float((np.bincount(rows, weights=weights) ** 2).sum()),
        means=means,
    )


def stratum_weights(strata: Codes, sizes: Array | None = None) -> Array:
    """Return the weight of each sample: its share of its stratum over the number of strata.

    >>> stratum_weights(np.array([0, 1, 1])).tolist()
    [0.5, 0.25, 0.25]
    """
    own = np.ones(strata.size) if sizes is None else sizes
    totals = np.bincount(strata, weights=own)
    return np.asarray(own / totals[strata] / totals.size)


def weighted_units(values: Array, weights: Array, clusters: Labels | Codes | None) -> UnitSums:
    """Return samples, or clusters, as units of one weighted mean, of which Gaffke's bound is made (`MeanContrast`).

    The bound counts the differences between strata too, as if their samples were drawn: it errs on the cautious side.
    """
    if clusters is None:
        return UnitSums(weights * values, weights)
    _, codes, _ = check_clustered(values, clusters)
    totals, sizes = (np.bincount(codes, weights=part).astype(np.float64) for part in (weights * values, weights))
    return UnitSums(totals, sizes)


def stratified_interval(mean: StratifiedMean, *, level: float, is_binary: bool) -> Interval | None:
    """Return the interval to show: of yes or no Wilson's at the effective size, else Student's t, and none without variation.

    The quantile is that of t: with Wilson's own, 3 tasks of 5 to 15 samples have a coverage of .93 at a nominal .95.
    """
    check_share(level, "level")
    if is_binary:
        return _wilson(mean, level)
    if mean.se == 0:
        return None
    return t_interval(mean.estimate, mean.se, mean.dof, level=level, method=T)


def _wilson(mean: StratifiedMean, level: float) -> Interval:
    rate, size, t = mean.estimate, mean.units, normal_quantile(0.5 + level / 2)
    if mean.se and 0 < rate < 1:
        size, t = rate * (1 - rate) / mean.se**2, t_quantile(mean.dof, 0.5 + level / 2)
    ratio = t * t / size
    centre = (rate + ratio / 2) / (1 + ratio)
    half = math.sqrt(rate * (1 - rate) * ratio + ratio * ratio / 4) / (1 + ratio)
    return Interval(low=max(centre - half, 0.0), high=min(centre + half, 1.0), level=level, method=WILSON)
