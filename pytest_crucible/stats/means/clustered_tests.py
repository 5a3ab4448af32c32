"""Tests of clustered means: of one arm, and of paired differences. Independent arms are in `clustered_arms`.

All raise NotEnoughData below `fewest` clusters, by default five: no correction repairs the variance of fewer.
"""

from __future__ import annotations

import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Alternative,
    Labels,
    Range,
)
from pytest_crucible.stats.means.clustered import (
    FEWEST_CLUSTERS,
    clustered_interval,
    clustered_mean,
    clustered_p_value,
)
from pytest_crucible.stats.means.sandwich import Sandwich
from pytest_crucible.stats.means.student import bounds_of_difference, paired_differences
from pytest_crucible.stats.results import Significance


def clustered_t(
    values: npt.ArrayLike,
    clusters: Labels,
    *,
    mu: float = 0.0,
    variance: Sandwich = "cr2",
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
    fewest: int = FEWEST_CLUSTERS,
) -> Significance:
    """Return the cluster-robust t test of "the mean is mu". One label per value; R: see `clustered_mean`.

    When all clusters have the same mean the status is "degenerate": the sign-flip p over clusters, and the point-mass
    interval within finite `bounds`. Raises NotEnoughData below `fewest` clusters.

    >>> result = clustered_t([1, 1, 0, 1, 0, 0, 1, 0, 1, 1], list("aabbccddee"))
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (3.2071, 0.0327)
    """
    return _test(values, clusters, mu, variance, alternative, level, bounds, fewest)


def clustered_paired_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    clusters: Labels,
    *,
    variance: Sandwich = "cr2",
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
    fewest: int = FEWEST_CLUSTERS,
) -> Significance:
    """Return the cluster-robust paired t test of candidate - baseline. One label per pair.

    It is the `clustered_t` of the differences; with one pair per cluster it is `paired_t`. `bounds` are those of the
    scores. Raises ValueError for arms of unequal length and NotEnoughData below `fewest` clusters.

    >>> result = clustered_paired_t([1, 1, 0, 1, 1, 0, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0, 1, 1, 0, 1], list("aabbccddee"))
    >>> result.estimate, round(result.p_value, 4)
    (0.2, 0.3739)
    """
    # Clustered differences are one clustered mean: what the arms share inside a cluster cancels first.
    differences = paired_differences(candidate, baseline)
    return _test(differences, clusters, 0.0, variance, alternative, level, bounds_of_difference(bounds), fewest)


def _test(
    values: npt.ArrayLike,
    clusters: Labels,
    mu: float,
    variance: Sandwich,
    alternative: Alternative,
    level: float,
    bounds: Range | None,
    fewest: int,
) -> Significance:
    mean = clustered_mean(values, clusters, variance=variance, fewest=fewest)
    flat = mean.se == 0
    return Significance(
        method=f"clustered t, {variance}",
        statistic=None if flat else (mean.estimate - mu) / mean.se,
        p_value=clustered_p_value(mean, mu=mu, alternative=alternative),
        dof=() if flat else (mean.dof,),
        estimate=mean.estimate,
        interval=clustered_interval(mean, level=level, bounds=bounds, alternative=alternative),
        se=None if flat else mean.se,
        n=(mean.n,),
        status="degenerate" if flat else "ok",
        note=f"all {mean.clusters} clusters have the same mean" if flat else "",
    )
