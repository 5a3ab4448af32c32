"""Detectable means and sample sizes of Gaffke's bound, from how much a sample varies.

The sample represents the population, and larger samples count each of its values more often. A power of 80 % is that of a sample
whose mean is as low as one in five is.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Array, Labels, check_share, cluster_codes, cluster_totals, finite
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.planning.roots import rising_root

# A plan for more samples is reported as none.
MOST_SAMPLES = 10_000_000
_ROUNDING = 1e-9
# A plan by 4,000 of 100,000 values differs by 1 % at most, and takes 5 instead of 200 ms.
_REPRESENTATIVE = 4_000
# Precision of a detectable mean, as a share of the range: reports show three digits.
_PRECISION = 1e-7
# Weight of values that an unlucky sample hardly has. At 0 they would still count as possible.
_RAREST = 1e-9


def detectable_by_gaffke(
    values: npt.ArrayLike,
    *,
    end: float,
    alpha: float,
    power: float = 0.8,
    clusters: Labels | None = None,
    times: float = 1,
) -> float | None:
    """Return the smallest mean above 0 that as many values prove at a one-sided alpha; None if that takes more than -end.

    `end` is the lowest value that exists. The values' own mean plays no part. Raises as `gaffke_bound`.

    >>> round(detectable_by_gaffke([-0.5, 0.5] * 100, end=-3.4, alpha=0.025), 3)
    0.126
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    array = finite(values)
    reserve = float(ndtri(power)) * _standard_error(array, clusters) / math.sqrt(times)
    if clusters is None:
        array, times = _representatives(array, times)
    centred = array - array.mean()

    def excess(mean: float) -> float:
        p_value = gaffke_p_value(centred + mean, null=0.0, end=end, side="lower", clusters=clusters, times=times)
        return math.log(p_value) - math.log(alpha)

    # The end does not move along with the values.
    low, high = max(0.0, (end - float(centred.min())) * (1 + _ROUNDING)), -end
    if high <= low or excess(high) > 0:
        return None
    return reserve + rising_root(lambda mean: -excess(mean), low, most=high, error=_PRECISION * high)


def samples_by_gaffke(
    values: npt.ArrayLike,
    *,
    null: float,
    end: float,
    alpha: float,
    power: float = 0.8,
    clusters: Labels | None = None,
) -> int | None:
    """Return how many values prove with this power that their mean is above `null`, if it is; None if no number does.

    >>> samples_by_gaffke([0.0, 0.4] * 50, null=0.0, end=-3.4, alpha=0.025)
    75
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    array = finite(values)
    if clusters is None:
        array, _ = _representatives(array, 1.0)
    residuals = _residuals(array, clusters)
    error = _standard_error(array, clusters)
    # Weights of 1 + tilt * residual lower the mean by one standard error.
    squares = float(residuals @ residuals)
    tilt = -error * array.size / squares if squares else 0.0

    def proves(samples: float) -> bool:
        times = samples / array.size
        weights = 1 + float(ndtri(power)) / math.sqrt(times) * tilt * residuals
        unlucky = times * np.maximum(weights, _RAREST)
        return gaffke_p_value(array, null=null, end=end, side="lower", clusters=clusters, times=unlucky) <= alpha

    low, high = 1.0, float(MOST_SAMPLES)
    if array.mean() <= null or not proves(high):
        return None
    while high > 1.001 * low + 0.5:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if proves(middle) else (middle, high)
    return math.ceil(high)


def _representatives(array: Array, times: float) -> tuple[Array, float]:
    """Return quantiles that stand for many values, and how often each counts."""
    size = array.size
    if size <= _REPRESENTATIVE:
        return array, times
    quantiles = np.sort(array)[(2 * np.arange(_REPRESENTATIVE) + 1) * size // (2 * _REPRESENTATIVE)]
    return quantiles, times * size / _REPRESENTATIVE


def _residuals(array: Array, clusters: Labels | None) -> Array:
    """Return how far each value, or the total of each cluster, is from the mean."""
    residuals = array - array.mean()
    return residuals if clusters is None else cluster_totals(cluster_codes(clusters, array.size)[0], residuals)


def _standard_error(array: Array, clusters: Labels | None) -> float:
    return standard_error(array) if clusters is None else clustered_mean(array, clusters).se
