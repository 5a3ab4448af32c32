"""Half-widths of joint intervals over the values of all segments, from both sources of chance.

Permutations: the variance of the values between antithetic pairs, which also has the noise of the replies, but for the sets that
several pairs share. That of a segment is averaged with the largest of all segments: three segments of which all are needed
change by the same in (2/3)^pairs of all plans although their value is another, and then others change (own variances cover in 1 %
of runs where a weighted majority of 12 segments decides). Draws: a set's variance times its weight in each value, for
what pairs share. Quantiles: Student's t with Satterthwaite's degrees of freedom, at Sidak's share of the level.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from pytest_crucible.stats.arrays import ROUNDING, Array
from pytest_crucible.stats.attribution.orders import Marginals
from pytest_crucible.stats.attribution.replies import SetScores, Variances
from pytest_crucible.stats.attribution.sets import PAIRS_FOR_INTERVALS


def half_widths(marginals: Marginals, sets: SetScores, confidence: float) -> Array:
    """Return the half-width of each segment's interval; NaN where it is not estimable.

    It is not with one draw of random replies, fewer than `PAIRS_FOR_INTERVALS` pairs, or all sets of which some are missing.
    """
    is_exact = not marginals.pairs
    too_few = np.isnan(sets.means).any() if is_exact else marginals.pairs < PAIRS_FOR_INTERVALS
    if too_few or not sets.variances:
        return np.full(marginals.segments, np.nan)
    if is_exact and not sets.is_random:
        return np.zeros(marginals.segments)
    weights = marginals.set_weights(sets.means.size)
    if is_exact:
        between, shares = (
            Variances(values=np.zeros(marginals.segments), dof=np.full(marginals.segments, np.inf)),
            weights**2,
        )
    else:
        between, shares = _vary_between_pairs(marginals, sets.means), _weigh_shared_sets(weights, marginals.pairs)
    half = np.max([_multiply_errors(between, shares, own, confidence) for own in sets.variances], axis=0)
    # Equal pairs have no variance, and values that are right but for rounding.
    return half if is_exact else half + ROUNDING * marginals.segments * sets.scale


def _vary_between_pairs(marginals: Marginals, means: Array) -> Variances:
    own = marginals.pair_values(means).var(axis=0, ddof=1) / marginals.pairs
    # The largest of many variances is hardly ever small by chance.
    certainty = min(3.0, max(1.0, marginals.segments / 4))
    return Variances(values=(own + own.max()) / 2, dof=np.full(own.size, certainty * (marginals.pairs - 1)))


def _weigh_shared_sets(weights: Array, pairs: int) -> Array:
    """Return segments x sets: what the variance of a set adds to that between pairs.

    A set has the same weight, and sign, in each of the m pairs that use it. The variance between pairs has m of the m^2 products
    of these weights that the variance of the mean has; the rest is for pairs that share the set.
    """
    uses = np.rint(weights * 2 * pairs)
    return uses * (uses - 1) / (4 * pairs * (pairs - 1))


def _multiply_errors(between: Variances, shares: Array, drawn: Variances, confidence: float) -> Array:
    parts = shares * drawn.values
    variance = between.values + parts.sum(axis=1)
    squares = between.values**2 / between.dof + (parts**2 / drawn.dof).sum(axis=1)
    dof = np.divide(variance**2, squares, out=np.full(variance.size, np.inf), where=squares > 0)
    tail = -np.expm1(np.log(confidence) / variance.size) / 2
    return np.asarray(-stdtrit(dof, tail) * np.sqrt(variance), dtype=np.float64)
