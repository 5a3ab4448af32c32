"""The median of the ratios of pairs, from their order alone, so that neither tails nor zeros move it.

It lies above a limit if more than half of the ratios do. That is the sign test, which is exact for independent pairs. With
clusters, each gets one weight (`means.gaffke`, which is the same test if each pair is a cluster).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, Side, check_share, check_side, paired_arrays
from pytest_crucible.stats.means.gaffke import gaffke_p_value


def log_ratios(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Array:
    """Return the logarithms of the pairs' ratios: infinite beside one 0, NaN for two. Raises ValueError below 0.

    >>> log_ratios([1.0, 0.0, 2.0, 0.0], [1.0, 3.0, 0.0, 0.0])
    array([  0., -inf,  inf,  nan])
    """
    first, second = paired_arrays(candidate, baseline)
    if min(first.min(initial=0.0), second.min(initial=0.0)) < 0:
        raise ValueError("ratios need values of at least 0")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(first) - np.log(second))


def median_of_ratios(logarithms: Array) -> float | None:
    """Return the median logarithm, or None if more than half of the pairs have no ratio.

    >>> median_of_ratios(np.array([0.2, -np.inf, np.nan, 0.1])), median_of_ratios(np.array([np.nan, np.nan, 1.0]))
    (0.1, None)
    """
    known = np.sort(logarithms[~np.isnan(logarithms)])
    if 2 * known.size <= logarithms.size:
        return None
    low, high = float(known[(known.size - 1) // 2]), float(known[known.size // 2])
    # Infinite ends of opposite signs have no middle.
    return low if low == high or not math.isfinite(low + high) else (low + high) / 2


def median_ratio_p_value(logarithms: Array, *, side: Side, clusters: Labels | None = None) -> float:
    """Return the p-value of "the median ratio is at most 1"; for "upper", at least 1. Raises NotEnoughData below two pairs.

    >>> round(median_ratio_p_value(np.array([0.1] * 15 + [-0.1] * 5), side="lower"), 3)  # P(Binomial(20, 1/2) >= 15) = 0.021
    0.021
    """
    check_side(side)
    beyond = logarithms > 0 if side == "lower" else logarithms < 0
    return _p_value(beyond, clusters)


def median_ratio_bound(logarithms: Array, *, alpha: float, side: Side, clusters: Labels | None = None) -> float:
    """Return the one-sided bound for the median logarithm: the logarithm of one pair; infinite if there are too few pairs.

    >>> median_ratio_bound(np.arange(20.0), alpha=0.05, side="lower")
    5.0
    """
    check_share(alpha, "alpha")
    check_side(side)
    sign = 1.0 if side == "lower" else -1.0
    values = sign * logarithms
    ordered = np.unique(values[~np.isnan(values)])
    # Pairs of zeros are NaN, which no comparison holds for: they count against both bounds.
    proven, open_ = -1, ordered.size
    while open_ - proven > 1:
        middle = (proven + open_) // 2
        if _p_value(values >= ordered[middle], clusters) <= alpha:
            proven = middle
        else:
            open_ = middle
    return sign * float(ordered[proven]) if proven >= 0 else -sign * math.inf


def _p_value(beyond: npt.NDArray[np.bool_], clusters: Labels | None) -> float:
    """Return the p-value of the hypothesis that at most half are beyond."""
    return gaffke_p_value(beyond.astype(np.float64), null=0.5, end=0.0, side="lower", clusters=clusters)
