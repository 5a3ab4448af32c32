"""The area under the ROC curve with its variance, from DeLong's placements.

DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44:837; by midranks: Sun & Xu (2014), IEEE Signal Process. Lett. 21:1389.
Samples in clusters: Obuchowski (1997), Biometrics 53:567.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.stats.measures.row import Clusters, Floats, Prepared


@dataclass(frozen=True, slots=True)
class Area:
    """An area (or a difference of two) with its variance and degrees of freedom."""

    value: float
    variance: float
    dof: float


def estimate_area(prepared: Prepared) -> Area:
    """Return the area of the scores, with its variance."""
    return combine_placements(placements(prepared), prepared)


def positive_samples(prepared: Prepared) -> Any:
    """Return which samples are positive."""
    return np.asarray(prepared.strata == 1)


def placements(prepared: Prepared) -> tuple[Floats, Floats]:
    """Return DeLong's structural components.

    They are, for each positive, the share of negatives below it, and, for each negative, the share of positives above it.
    """
    positive = positive_samples(prepared)
    high, low = prepared.values[positive], prepared.values[~positive]
    everywhere = _midranks(prepared.values)
    of_positives = (everywhere[positive] - _midranks(high)) / len(low)
    of_negatives = 1 - (everywhere[~positive] - _midranks(low)) / len(high)
    return of_positives, of_negatives


def _midranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], dtype=np.float64)


def combine_placements(placed: Sequence[Floats], prepared: Prepared, pseudo: float = 0.0) -> Area:
    """Return the mean of the placements with its variance, from sums over clusters; without clusters, each sample is one.

    `pseudo` adds two more samples (or clusters) of each class, on which the placements are this far from the mean.
    """
    positive = positive_samples(prepared)
    codes = np.arange(len(positive)) if prepared.clusters is None else prepared.clusters
    of_positives, of_negatives = placed
    value = float(of_positives.mean())
    high = _cluster_sums(of_positives - value, codes[positive], codes)
    low = _cluster_sums(of_negatives - value, codes[~positive], codes)
    parts = [_part(*high, len(of_positives), pseudo), _part(*low, len(of_negatives), pseudo)]
    cross = 0.0 if prepared.clusters is None else _covariance(high[0], low[0], len(of_positives) * len(of_negatives))
    variance = parts[0][0] + parts[1][0] + cross
    # Clusters that hold both classes can make the sum negative; the larger part alone then is the careful answer.
    variance = variance if variance > 0 or not cross else max(parts[0][0], parts[1][0])
    return Area(value, variance, _welch_dof(parts))


def _covariance(high: Floats, low: Floats, pairs: int) -> float:
    """Twice the covariance of both classes' parts, from clusters that hold samples of both (Obuchowski 1997, equation 4)."""
    clusters = len(high)
    return 2 * clusters / (clusters - 1) * float(high @ low) / pairs if clusters > 1 else 0.0


def _cluster_sums(centred: Floats, codes: Clusters, all_codes: Clusters) -> tuple[Floats, Floats]:
    """Sum and count in each cluster of the experiment."""
    size = int(all_codes.max()) + 1
    sums = np.bincount(codes, weights=centred, minlength=size)
    return sums.astype(np.float64), np.bincount(codes, minlength=size).astype(np.float64)


def _part(sums: Floats, counts: Floats, n: int, pseudo: float) -> tuple[float, int]:
    """Variance that one class contributes, and its clusters less one. Infinite for a single cluster."""
    clusters = int((counts > 0).sum())
    total = float(sums @ sums)
    if pseudo:
        # Pseudo-clusters are as large as an average one: unseen values come in clusters, too.
        size = n / clusters
        total, clusters, n = total + 2 * (pseudo * size) ** 2, clusters + 2, n + round(2 * size)
    if clusters < 2:
        return math.inf, 1
    return clusters / (clusters - 1) * total / n**2, clusters - 1


def _welch_dof(parts: Sequence[tuple[float, int]]) -> float:
    total = sum(variance for variance, _ in parts)
    if not 0 < total < math.inf:
        return float(min(dof for _, dof in parts))
    return total**2 / sum(variance**2 / dof for variance, dof in parts)
