"""The difference of two independent arms with clustered values.

An equal label in both arms is the same cluster; clusters may be in one arm or in both. The default is CR2 with
Satterthwaite's degrees of freedom; see `sandwich`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    ROUNDING,
    Alternative,
    Array,
    Labels,
    check_alternative,
    check_share,
    cluster_codes,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS
from pytest_crucible.stats.means.moments import two_arms
from pytest_crucible.stats.means.point_mass import constant_arms_p_value, distance
from pytest_crucible.stats.means.sandwich import Sandwich, robust_terms, root_of_squares
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import t_interval, t_p_value


def clustered_arms(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    candidate_clusters: Labels,
    baseline_clusters: Labels,
    *,
    variance: Sandwich = "cr2",
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    fewest: int = FEWEST_CLUSTERS,
) -> Significance:
    """Return the cluster-robust t test of two independent arms; an equal label in both is the same cluster.

    R: clubSandwich::coef_test(lm(score ~ arm), "CR2", clusters, "Satterthwaite"). `fewest` counts the clusters of both
    arms together; each arm needs two. When no cluster varies the status is "degenerate": p is 1 for equal arms, the
    exact permutation p over clusters for different arms that share none, and None otherwise.

    >>> arms = [0.9, 0.8, 0.7, 0.9, 0.6, 0.5], [0.4, 0.6, 0.5, 0.3, 0.2, 0.6]
    >>> result = clustered_arms(*arms, list("aabbcc"), list("ddeeff"))
    >>> round(result.estimate, 4), round(result.p_value, 4)
    (0.3, 0.0383)
    """
    check_share(level, "level")
    check_alternative(alternative)
    arms = _by_cluster(candidate, baseline, candidate_clusters, baseline_clusters, fewest)
    contributions, dof = robust_terms(arms.totals, arms.sizes, variance)
    estimate, method = distance(*arms.means), f"clustered two-sample t, {variance}"
    # Contributions of rounding size would give a huge t for arms that do not vary.
    if np.all(np.abs(contributions) <= ROUNDING * arms.largest):
        return _flat(method, estimate, arms, alternative)
    se = root_of_squares(contributions)
    return Significance(
        method=method,
        statistic=estimate / se,
        p_value=t_p_value(estimate / se, dof, alternative),
        dof=(dof,),
        estimate=estimate,
        interval=t_interval(estimate, se, dof, level=level, method=variance, alternative=alternative),
        se=se,
        n=arms.n,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clusters:
    """Two arms by cluster: residual totals and sizes are clusters x arms."""

    totals: Array
    sizes: Array
    means: tuple[float, float]
    n: tuple[int, int]
    largest: float


def _by_cluster(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, first: Labels, second: Labels, fewest: int
) -> _Clusters:
    """Return residual totals and sizes of both arms by cluster. Raises NotEnoughData for too few clusters."""
    arms = two_arms(candidate, baseline)
    for arm, own in zip(arms, (first, second), strict=True):
        # Each arm is checked alone: two wrong lengths could add up to the right total.
        cluster_codes(own, arm.size)
    n = arms[0].size, arms[1].size
    # Both arms are numbered together, so that an equal label is the same cluster.
    codes, count = cluster_codes([*_as_list(first), *_as_list(second)], sum(n))
    columns = [(codes[: n[0]], arms[0]), (codes[n[0] :], arms[1])]
    sizes = np.stack([np.bincount(own, minlength=count) for own, _ in columns], axis=1).astype(np.float64)
    fewer = int(min((sizes > 0).sum(axis=0)))
    if count < fewest or fewer < 2:
        raise NotEnoughData(f"{count} clusters, {fewer} in one arm: needs at least {fewest}, and 2 in each arm")
    totals = [np.bincount(own, weights=arm - arm.mean(), minlength=count) for own, arm in columns]
    means = float(arms[0].mean()), float(arms[1].mean())
    largest = max(float(np.abs(arm).max()) for arm in arms)
    return _Clusters(totals=np.stack(totals, axis=1), sizes=sizes, means=means, n=n, largest=largest)


def _as_list(labels: Labels) -> list[object]:
    return labels.tolist() if isinstance(labels, np.ndarray) else list(labels)


def _flat(method: str, estimate: float, arms: _Clusters, alternative: Alternative) -> Significance:
    inside = arms.sizes > 0
    # Clusters can be permuted between the arms only if no cluster is in both.
    disjoint = bool(np.all(inside.sum(axis=1) == 1))
    counts = int(inside[:, 0].sum()), int(inside[:, 1].sum())
    is_exact = estimate == 0 or disjoint
    return Significance(
        method=method,
        statistic=None,
        p_value=constant_arms_p_value(estimate, counts, alternative) if is_exact else None,
        estimate=estimate,
        n=arms.n,
        status="degenerate",
        note="the clusters do not vary around the difference of the arms",
    )
