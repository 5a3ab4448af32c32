"""Power, clusters and smallest detectable effect where samples come in clusters, such as questions on one passage.

A mean of G clusters of m samples varies as one of G m / (1 + (m - 1) ICC) independent samples would, on G - 1 degrees
of freedom: more samples in the same clusters help only up to G / ICC of them.
"""

from __future__ import annotations

import math

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.stats.observations import Alternative, check_share
from pytest_crucible.stats.planning.roots import (
    NEVER,
    SampleSize,
    check_effect,
    check_power,
    rising_root,
    sample_size,
    toward,
)
from pytest_crucible.stats.planning.t_tests import shifted_t_power


def design_effect(size: float, icc: float, *, size_variation: float = 0.0) -> float:
    """How many times as large the variance of a mean is for clusters: 1 + (m - 1) ICC. Kish 1965.

    `size_variation` is the coefficient of variation of the cluster sizes, for unequal ones:
    1 + ((1 + cv^2) m - 1) ICC (Eldridge, Ashby & Kerry 2006).

    >>> design_effect(5, 0.25)
    2.0
    """
    if not (size >= 1 and size_variation >= 0):
        raise ValueError(
            f"clusters have at least 1 sample and a variation of at least 0, not {size!r}, {size_variation!r}"
        )
    if not 0 <= icc <= 1:
        raise ValueError(f"an intraclass correlation lies between 0 and 1 here, not {icc!r}")
    return 1 + ((1 + size_variation**2) * size - 1) * icc


def power_clustered(
    clusters: float,
    size: float,
    effect: float,
    icc: float,
    *,
    size_variation: float = 0.0,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> float:
    """Chance that a t test over G clusters of m samples finds this mean, in standard deviations of one sample.

    Noncentral t on G - 1 degrees of freedom. For paired arms, effect and ICC are those of the differences. Raises
    NotEnoughData below two clusters.

    >>> round(power_clustered(20, 5, 0.3, 0.2), 4)
    0.5645
    """
    check_share(alpha, "alpha")
    check_effect(effect, "the effect")
    _check_clusters(clusters)
    per_cluster = size / design_effect(size, icc, size_variation=size_variation)
    return _power(clusters, toward(effect, alternative), per_cluster, alpha, alternative)


def clusters_for_mean(
    size: float,
    effect: float,
    icc: float,
    *,
    size_variation: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> SampleSize:
    """Clusters of m samples that a t test needs to find this mean, in standard deviations of one sample.

    >>> clusters_for_mean(5, 0.3, 0.2).ceiling
    34
    """
    check_power(power, alpha)
    check_effect(effect, "the effect")
    per_cluster = size / design_effect(size, icc, size_variation=size_variation)
    wanted = toward(effect, alternative)
    if wanted <= 0:
        return NEVER
    return sample_size(lambda clusters: _power(clusters, wanted, per_cluster, alpha, alternative), power, fewest=2.0)


def detectable_clustered(
    clusters: float,
    size: float,
    icc: float,
    *,
    size_variation: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> float:
    """Smallest mean that G clusters of m samples detect, in standard deviations of one sample.

    >>> round(detectable_clustered(34, 5, 0.2), 3)
    0.297
    """
    check_power(power, alpha)
    _check_clusters(clusters)
    per_cluster = size / design_effect(size, icc, size_variation=size_variation)
    effect = rising_root(lambda effect: _power(clusters, effect, per_cluster, alpha, alternative) - power, 0.0)
    return -effect if alternative == "less" else effect


def _power(clusters: float, wanted: float, per_cluster: float, alpha: float, alternative: Alternative) -> float:
    """`per_cluster` is how many independent samples a cluster is worth."""
    return shifted_t_power(clusters - 1, wanted * math.sqrt(clusters * per_cluster), alpha, alternative)


def _check_clusters(clusters: float) -> None:
    if not clusters >= 2:
        raise NotEnoughData(f"{counted(clusters, 'cluster')}: the power of a t test needs at least 2")
