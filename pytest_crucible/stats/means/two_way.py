"""The difference of two independent arms whose values are clustered in two ways at once, such as by block and by group.

Cameron, Gelbach and Miller (2011), Robust inference with multiway clustering, equation 2.3: the variance by the first clusters
plus that by the second, minus that by their intersections, which both have counted.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import ROUNDING, Array, Codes, Labels, check_share, cluster_codes, cluster_totals
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import robust_terms
from pytest_crucible.stats.means.moments import t_interval, t_p_value, two_arms
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.results import Significance

METHOD = "two-sample t, clustered in two ways"


def two_way_arms(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    candidate_clusters: tuple[Labels, Labels],
    baseline_clusters: tuple[Labels, Labels],
    *,
    level: float = 0.95,
) -> Significance:
    """Return the t test of candidate minus baseline, each value in a cluster of each kind.

    `*_clusters` are the labels of the first kind, of which no cluster may be in both arms, and of the second kind, whose
    clusters may be. The degrees of freedom are Satterthwaite's, the fewer of the two kinds. An arm whose values do not vary
    beside one that has other values alone has the exact p-value over assignments of clusters of the first kind to the arms.
    Raises NotEnoughData below two clusters of the first kind in an arm, and ValueError for one that is in both.

    >>> test = two_way_arms([1, 1, 0, 1], [0, 1, 0, 0, 0, 0], (list("aabb"), list("vwvw")), (list("ccddee"), list("vwvwvw")))
    >>> round(test.estimate, 4), round(test.dof[0], 2)
    (0.5833, 1.0)
    """
    check_share(level, "level")
    arms = two_arms(candidate, baseline)
    is_candidate = np.repeat([True, False], [arms[0].size, arms[1].size])
    first, second = (_joint_codes(pair, arms) for pair in zip(candidate_clusters, baseline_clusters, strict=True))
    counts = _count_clusters(first, is_candidate)
    estimate, values = float(arms[0].mean() - arms[1].mean()), np.concatenate(arms)
    residuals = np.concatenate([arm - arm.mean() for arm in arms])
    if np.all(np.abs(residuals) <= ROUNDING * np.abs(values).max()):
        p_value = 1.0 if estimate == 0 else 1 / math.comb(sum(counts), counts[0])
        return Significance(
            method=METHOD,
            statistic=None,
            p_value=p_value,
            estimate=estimate,
            n=(arms[0].size, arms[1].size),
            status="degenerate",
        )
    variance, dof = _variance(residuals, is_candidate, first, second)
    se = math.sqrt(variance)
    return Significance(
        method=METHOD,
        statistic=estimate / se,
        p_value=t_p_value(estimate / se, dof),
        dof=(dof,),
        estimate=estimate,
        interval=t_interval(estimate, se, dof, level=level, method="clustered in two ways"),
        se=se,
        n=(arms[0].size, arms[1].size),
    )


def _joint_codes(labels: tuple[Labels, Labels], arms: tuple[Array, Array]) -> Codes:
    """Return cluster numbers of both arms together, so that an equal label is the same cluster."""
    codes, _ = cluster_codes([*labels[0], *labels[1]], arms[0].size + arms[1].size)
    return codes


def _count_clusters(codes: Codes, is_candidate: npt.NDArray[np.bool_]) -> tuple[int, int]:
    own, others = np.unique(codes[is_candidate]), np.unique(codes[~is_candidate])
    if np.intersect1d(own, others).size:
        raise ValueError("a cluster of the first kind is in both arms: each belongs to one")
    if min(own.size, others.size) < 2:
        raise NotEnoughData(f"{quantity(min(own.size, others.size), 'cluster')} in an arm: needs at least 2 in each")
    return own.size, others.size


def _variance(
    residuals: Array, is_candidate: npt.NDArray[np.bool_], first: Codes, second: Codes
) -> tuple[float, float]:
    """Return the variance of the difference, never below that by one kind alone, and its degrees of freedom."""
    both = np.unique(np.stack([first, second]), axis=1, return_inverse=True)[1].ravel()
    of_first, dof = _pool_clusters(residuals, is_candidate, first)
    of_second, other_dof = _by_cluster(residuals, is_candidate, second)
    of_both, _ = _by_cluster(residuals, is_candidate, both)
    # With few clusters the sum of three estimates can fall below each of the first two, even below 0.
    return max(of_first + of_second - of_both, of_first, of_second), min(dof, other_dof)


def _pool_clusters(residuals: Array, is_candidate: npt.NDArray[np.bool_], codes: Codes) -> tuple[float, float]:
    """Return the variance by clusters that were dealt to the arms at random, and so have one variance in both."""
    totals, sizes = cluster_totals(codes, residuals), np.bincount(codes).astype(np.float64)
    dof = len(sizes) - 2.0
    # Of a cluster's total, in proportion to its size.
    per_value = float(np.sum(totals**2 / sizes)) / dof
    return per_value * (1 / is_candidate.sum() + 1 / (~is_candidate).sum()), dof


def _by_cluster(residuals: Array, is_candidate: npt.NDArray[np.bool_], codes: Codes) -> tuple[float, float]:
    columns = [np.where(arm, residuals, 0.0) for arm in (is_candidate, ~is_candidate)]
    count = int(codes.max()) + 1
    totals = np.stack([cluster_totals(codes, column) for column in columns], axis=1)
    sizes = np.stack([np.bincount(codes[arm], minlength=count) for arm in (is_candidate, ~is_candidate)], axis=1)
    contributions, dof = robust_terms(totals, sizes.astype(np.float64), "cr2")
    return float(np.sum(contributions**2)), dof
