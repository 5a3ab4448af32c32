"""Power, number of clusters and smallest detectable effect for clustered samples, such as several about one passage.

A mean of G clusters of m samples varies as one of G m / (1 + (m - 1) ICC) independent samples would, on G - 1 degrees
of freedom: more samples in the same clusters help only up to G / ICC of them.
"""

from __future__ import annotations

import math

from pytest_crucible.stats.arrays import Alternative
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import (
    NEVER,
    SampleSize,
    check_effect,
    check_power,
    sample_size,
    toward,
)
from pytest_crucible.stats.planning.t_tests import shifted_t_power


def design_effect(size: float, icc: float, *, size_variation: float = 0.0) -> float:
    """Return the factor by which clustering inflates the variance of a mean: 1 + (m - 1) ICC.

    Kish 1965. `size_variation` is the coefficient of variation of the cluster sizes, for unequal ones: 1 + ((1 + cv^2)
    m - 1) ICC (Eldridge, Ashby & Kerry 2006).

    >>> design_effect(5, 0.25)
    2.0
    """
    if not (size >= 1 and size_variation >= 0):
        raise ValueError(
            f"clusters must have at least 1 sample and a size variation of at least 0, not {size!r} and {size_variation!r}"
        )
    if not 0 <= icc <= 1:
        raise ValueError(f"an intraclass correlation must lie between 0 and 1 here, not {icc!r}")
    return 1 + ((1 + size_variation**2) * size - 1) * icc


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
    """Return the number of clusters of m samples that a t test needs to detect a mean.

    The mean is in standard deviations of one sample.

    >>> clusters_for_mean(5, 0.3, 0.2).ceiling
    34
    """
    check_power(power, alpha)
    check_effect(effect, "the effect")
    per_cluster = size / design_effect(size, icc, size_variation=size_variation)
    shift = toward(effect, alternative)
    # An effect on the other side of a one-sided test is not detected by any number of clusters.
    if shift <= 0:
        return NEVER
    return sample_size(lambda clusters: _power(clusters, shift, per_cluster, alpha, alternative), power, fewest=2.0)


def _power(clusters: float, effect: float, per_cluster: float, alpha: float, alternative: Alternative) -> float:
    """Return the power where each cluster carries as much information as `per_cluster` independent samples."""
    # The cluster means are the observations: G - 1 degrees of freedom, however large the clusters are.
    return shifted_t_power(clusters - 1, effect * math.sqrt(clusters * per_cluster), alpha, alternative)


def _check_clusters(clusters: float) -> None:
    if not clusters >= 2:
        raise NotEnoughData(f"{quantity(clusters, 'cluster')}: the power of a t test needs at least 2")
