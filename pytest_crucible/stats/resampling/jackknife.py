"""The jackknife: a statistic recomputed with each observation, or each cluster, left out in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import ROUNDING, Array, Labels, cluster_codes, finite
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.resampling.statistic import Statistic, apply_to_sample, apply_to_samples

# Values held at once: 16 MB.
CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Jackknife:
    """The bias, standard error and acceleration of a statistic, by leaving out one observation at a time."""

    estimate: float
    bias: float
    """(n - 1) times (mean of the replicates - estimate): subtract it to correct the estimate."""
    se: float
    acceleration: float | None
    """How fast the standard error changes with the parameter: BCa's a. None when all replicates are equal."""
    n: int
    """Observations; clusters where they were left out whole."""


def jackknife(values: npt.ArrayLike, statistic: Statistic = np.mean, *, clusters: Labels | None = None) -> Jackknife:
    """Return the jackknife bias, standard error and acceleration of `statistic(samples, axis=1)`.

    Samples come one per row. se = sqrt((n-1)/n sum (t_i - mean t)^2), a = sum (mean t - t_i)^3 / (6 (sum (mean t -
    t_i)^2)^1.5), where t_i leaves out observation i (Efron 1987; Efron & Tibshirani 1993, chapter 11). With `clusters`,
    whole clusters are left out. The standard error is not consistent for medians and other quantiles. Raises
    NotEnoughData below two values (or clusters).

    >>> result = jackknife([1.0, 2.0, 3.0, 6.0])
    >>> result.estimate, round(result.bias, 12), round(result.se, 6)
    (3.0, 0.0, 1.080123)
    """
    array = observations(values)
    codes, count = (None, len(array)) if clusters is None else cluster_codes(clusters, len(array))
    if count < 2:
        raise NotEnoughData(
            f"{quantity(count, 'value' if codes is None else 'cluster')}: leaving one out needs at least 2"
        )
    replicates = (
        _without_each(array, statistic)
        if codes is None
        else np.array([apply_to_sample(array[codes != code], statistic) for code in range(count)])
    )
    return summarise_replicates(apply_to_sample(array, statistic), replicates)


def observations(values: npt.ArrayLike) -> Array:
    """Return finite observations along the first axis: numbers, or rows of numbers.

    >>> observations([[1, 2], [3, 4], [5, 6]]).shape
    (3, 2)
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"expected numbers or rows of numbers, not {array.ndim} dimensions")
    finite(array.ravel())
    return array


def summarise_replicates(estimate: float, replicates: Array) -> Jackknife:
    """Return the jackknife of an estimate from its leave-one-out replicates.

    >>> summarise_replicates(2.0, np.array([2.5, 2.0, 1.5])).bias
    0.0
    """
    n = replicates.size
    below_mean = replicates.mean() - replicates
    # Squares and cubes of very small scores would underflow to 0.
    scale = float(np.abs(below_mean).max()) or 1.0
    squares, cubes = float(np.sum((below_mean / scale) ** 2)), float(np.sum((below_mean / scale) ** 3))
    varies = float(np.ptp(replicates)) > ROUNDING * float(np.abs(replicates).max())
    return Jackknife(
        estimate=estimate,
        bias=(n - 1) * (float(replicates.mean()) - estimate),
        se=scale * math.sqrt((n - 1) / n * squares) if varies else 0.0,
        acceleration=cubes / (6 * squares**1.5) if varies else None,
        n=n,
    )


def _without_each(array: Array, statistic: Statistic) -> Array:
    """Return the statistic of every sample that lacks one value, in blocks of bounded memory."""
    n = len(array)
    if statistic is np.mean and array.ndim == 1:
        # The mean needs no resampling at all.
        return np.asarray((array.sum() - array) / (n - 1), dtype=np.float64)
    rows, indices = max(1, CELLS // array.size), np.arange(n - 1)
    pieces = []
    for start in range(0, n, rows):
        left_out = np.arange(start, min(n, start + rows))[:, None]
        pieces.append(apply_to_samples(array[indices + (indices >= left_out)], statistic))
    return np.concatenate(pieces)
