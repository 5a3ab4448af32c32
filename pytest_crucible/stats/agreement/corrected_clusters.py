"""The variance of a corrected mean whose samples come in clusters, which labelled and unlabelled samples may share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes, Labels, Range, cluster_codes
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """The clusters of the labelled samples and of the others, in one numbering."""

    labelled: Codes
    rest: Codes
    count: int


def split_clusters(labelled: Labels, rest: Labels, sizes: tuple[int, int]) -> Clusters:
    """Return the clusters of both parts. Raises NotEnoughData below five clusters in either."""
    codes, count = cluster_codes([*labelled, *rest], sum(sizes))
    clusters = Clusters(codes[: sizes[0]], codes[sizes[0] :], count)
    for part, name in ((clusters.labelled, "with labels"), (clusters.rest, "without labels")):
        if len(np.unique(part)) < FEWEST_CLUSTERS:
            raise NotEnoughData(f"{len(np.unique(part))} clusters {name}: expected at least {FEWEST_CLUSTERS}")
    return clusters


def clustered_moments(
    errors: Array, rest: Array, clusters: Clusters, bounds: Range | None
) -> tuple[float, float, float]:
    """Return mean, variance and degrees of freedom of mean(errors) + mean(rest), from the sums of each cluster.

    With bounds of the errors, a cluster of mean size at each of them is added first: the augmented t of clusters. Degrees of
    freedom are those of the labelled clusters, uneven ones counted as Kish (1965) does.
    """
    weights, codes = np.ones(errors.size), clusters.labelled
    if bounds is not None:
        mean_size = errors.size / len(np.unique(codes))
        errors, weights = np.append(errors, bounds), np.append(weights, (mean_size, mean_size))
        codes = np.append(codes, (clusters.count, clusters.count + 1))
    whole = clusters.count + 2
    mean = float(errors @ weights / weights.sum())
    of_errors = np.bincount(codes, weights * (errors - mean), minlength=whole) / weights.sum()
    of_rest = np.bincount(clusters.rest, rest - rest.mean(), minlength=whole) / rest.size
    sizes = np.bincount(codes, weights, minlength=whole)
    variance = (
        _sum_of_squares(of_errors, codes) + _sum_of_squares(of_rest, clusters.rest) + 2 * float(of_errors @ of_rest)
    )
    return mean + float(rest.mean()), max(variance, 0.0), float(sizes.sum() ** 2 / (sizes @ sizes)) - 1


def _sum_of_squares(sums: Array, codes: Codes) -> float:
    count = len(np.unique(codes))
    return float(sums @ sums) * count / (count - 1)
