"""The jackknife: what becomes of a statistic when each observation, or each cluster, is left out in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.stats.observations import ROUNDING, Array, Labels, cluster_codes, finite
from pytest_crucible.stats.resampling.statistic import Statistic, of_each, of_one

CELLS = 2_000_000
"""Values that are looked at together: 16 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jackknife:
    """What leaving one out says about a statistic."""

    estimate: float
    bias: float
    """(n - 1) times what the mean of the replicates lies above the estimate: subtract it to correct."""
    se: float
    acceleration: float | None
    """How fast the standard error changes with the parameter: BCa's a. None when all replicates are equal."""
    n: int
    """Observations; clusters where they were left out whole."""


def jackknife(values: npt.ArrayLike, statistic: Statistic = np.mean, *, clusters: Labels | None = None) -> Jackknife:
    """Jackknife bias, standard error and acceleration of `statistic(samples, axis=1)`, with one sample per row.

    se = sqrt((n-1)/n sum (t_i - mean t)^2), a = sum (mean t - t_i)^3 / (6 (sum (mean t - t_i)^2)^1.5), where t_i leaves
    out observation i (Efron 1987; Efron & Tibshirani 1993, chapter 11). With `clusters`, whole clusters are left out.
    The standard error is not consistent for medians and other quantiles. Raises NotEnoughData below two values (or
    clusters).

    >>> result = jackknife([1.0, 2.0, 3.0, 6.0])
    >>> result.estimate, round(result.bias, 12), round(result.se, 6)
    (3.0, 0.0, 1.080123)
    """
    array = observations(values)
    codes, count = (None, len(array)) if clusters is None else cluster_codes(clusters, len(array))
    if count < 2:
        raise NotEnoughData(
            f"{counted(count, 'value' if codes is None else 'cluster')}: leaving one out needs at least 2"
        )
    replicates = (
        _without_each(array, statistic)
        if codes is None
        else np.array([of_one(array[codes != code], statistic) for code in range(count)])
    )
    return summarised(of_one(array, statistic), replicates)


def observations(values: npt.ArrayLike) -> Array:
    """Finite observations along the first axis: numbers, or rows of numbers for a statistic of several columns.

    >>> observations([[1, 2], [3, 4], [5, 6]]).shape
    (3, 2)
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"wanted numbers or rows of numbers, not {array.ndim} dimensions")
    finite(array.ravel())
    return array


def summarised(estimate: float, replicates: Array) -> Jackknife:
    """The jackknife of an estimate from its leave-one-out replicates.

    >>> summarised(2.0, np.array([2.5, 2.0, 1.5])).bias
    0.0
    """
    n = replicates.size
    above = replicates.mean() - replicates
    size = float(np.abs(above).max()) or 1.0  # squares and cubes of very small scores would be 0
    squares, cubes = float(np.sum((above / size) ** 2)), float(np.sum((above / size) ** 3))
    varied = float(np.ptp(replicates)) > ROUNDING * float(np.abs(replicates).max())
    return Jackknife(
        estimate=estimate,
        bias=(n - 1) * (float(replicates.mean()) - estimate),
        se=size * math.sqrt((n - 1) / n * squares) if varied else 0.0,
        acceleration=cubes / (6 * squares**1.5) if varied else None,
        n=n,
    )


def _without_each(array: Array, statistic: Statistic) -> Array:
    """The statistic of every sample that lacks one value, in pieces of bounded memory."""
    n = len(array)
    if statistic is np.mean and array.ndim == 1:
        return np.asarray((array.sum() - array) / (n - 1), dtype=np.float64)
    rows, kept = max(1, CELLS // array.size), np.arange(n - 1)
    pieces = []
    for start in range(0, n, rows):
        left_out = np.arange(start, min(n, start + rows))[:, None]
        pieces.append(of_each(array[kept + (kept >= left_out)], statistic))
    return np.concatenate(pieces)
