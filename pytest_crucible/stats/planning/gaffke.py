"""Detectable means and sample sizes of Gaffke's bound, from how much a sample varies.

The sample represents the population. It is shifted to a mean, lowered by the error that the mean stays within with the given
power, and must still be proven. Larger samples count each of its values more often.
"""

from __future__ import annotations

import math

import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Array, Labels, check_share, finite
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.means.moments import standard_error

MOST_SAMPLES = 10_000_000
_ROUNDING = 1e-9


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
    centred, error = _centre_values(values, clusters)
    reserve = float(ndtri(power)) * error / math.sqrt(times)

    def excess(mean: float) -> float:
        p_value = gaffke_p_value(centred + mean, null=0.0, end=end, side="lower", clusters=clusters, times=times)
        return math.log(p_value) - math.log(alpha)

    # The end does not move along with the values.
    low, high = max(0.0, (end - float(centred.min())) * (1 + _ROUNDING)), -end
    if high <= low or excess(high) > 0:
        return None
    return reserve + (low if excess(low) <= 0 else float(brentq(excess, low, high)))


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
    centred, error = _centre_values(values, clusters)
    mean = float(finite(values).mean())

    def proves(samples: float) -> bool:
        times = samples / centred.size
        lowered = centred + mean - float(ndtri(power)) * error / math.sqrt(times)
        if lowered.min() < end:
            return False
        p_value = gaffke_p_value(lowered, null=null, end=end, side="lower", clusters=clusters, times=times)
        return p_value <= alpha

    low, high = 1.0, float(MOST_SAMPLES)
    if mean <= null or not proves(high):
        return None
    while high > 1.001 * low + 0.5:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if proves(middle) else (middle, high)
    return math.ceil(high)


def _centre_values(values: npt.ArrayLike, clusters: Labels | None) -> tuple[Array, float]:
    """Return the values less their mean, and the mean's standard error."""
    array = finite(values)
    error = standard_error(array) if clusters is None else clustered_mean(array, clusters).se
    return array - array.mean(), error
