"""Half-widths of joint intervals over the values of all segments, from both sources of chance."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from pytest_crucible.stats.arrays import ROUNDING, Array
from pytest_crucible.stats.attribution.orders import Marginals
from pytest_crucible.stats.attribution.replies import SetScores
from pytest_crucible.stats.attribution.sets import PAIRS_FOR_INTERVALS


def half_widths(marginals: Marginals, sets: SetScores, confidence: float) -> Array:
    """Return the half-width of each segment's interval; NaN where it is not estimable."""
    if marginals.pairs == 0:
        estimable = bool(marginals.weight.size) and not np.isnan(sets.means).any()
    else:
        estimable = marginals.pairs >= PAIRS_FOR_INTERVALS
    if not estimable or np.isnan(sets.variances).any():
        return np.full(marginals.segments, np.nan)
    weights = marginals.set_weights(sets.means.size)
    if marginals.pairs == 0:
        coefficients, chosen = weights**2, np.zeros(marginals.segments)
    else:
        pairs = marginals.pairs
        counts = np.rint(weights * 2 * pairs)
        coefficients = counts * (counts - 1) / (4 * pairs * (pairs - 1))
        spread = marginals.pair_values(sets.means).var(axis=0, ddof=1) / pairs
        chosen = (spread + spread.max()) / 2
    half = combine(chosen, marginals.pairs - 1, coefficients, sets, confidence)
    # Equal pairs have no variance, and values that are right but for rounding.
    return half + (ROUNDING * marginals.segments * sets.scale if marginals.pairs else 0.0)


def combine(chosen: Array, dof: float, coefficients: Array, sets: SetScores, confidence: float) -> Array:
    """Return half-widths by Satterthwaite's degrees of freedom and Sidak's share of the level for each segment."""
    drawn = coefficients * sets.variances
    variance = chosen + drawn.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = (drawn**2 / sets.dof).sum(axis=1) + (chosen**2 / dof if dof > 0 else 0.0)
        freedom = np.where(variance > 0, variance**2 / squares, np.inf)
    tail = -np.expm1(np.log(confidence) / len(variance)) / 2
    return -stdtrit(freedom, tail) * np.sqrt(variance)
