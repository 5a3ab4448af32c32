"""Upper tails of the noncentral t, F and chi-square distributions, as mixtures of central ones.

Only positive terms are summed, so the tails are never NaN or negative and keep their digits on both sides.
scipy.special.nctdtr is NaN in its lower tail (scipy issues 25106 and 25470), and ncfdtr and chndtr have no upper tail
of their own.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, chdtrc, gammaln, ndtr, xlogy

from pytest_crucible.stats.arrays import Array

# Standard deviations of the mixing distribution that are summed: less than 1e-17 lies beyond them.
_SPREADS = 12.0
# exp(-45) is below the last bit of a sum of about 1.
_NEGLIGIBLE = 45.0


def noncentral_t_above(t: float, dof: float, shift: float) -> float:
    """Return P(T > t) for a noncentral t distribution.

    R: pt(t, df, ncp, lower.tail=FALSE). Degrees of freedom need not be whole. T = (Z + shift) / S with a chi S, so the
    tail is the mean of P(Z > t S - shift) over S. It is integrated over u = log S by the trapezoid rule, which
    converges geometrically for such bell-shaped integrands (Trefethen & Weideman 2014).

    >>> round(noncentral_t_above(2.022691, 39, 0.5 * 40**0.5), 6)
    0.869398
    """
    spread = 1 / math.sqrt(2 * dof)
    # Six steps to the standard deviation of log S resolve its bell; 0.35 / (|shift| + 8) resolves the step of ndtr.
    step = min(spread / 6, 0.35 / (abs(shift) + 8))
    # The density of log S falls like exp(dof u) to the left and doubly exponentially to the right.
    left = _NEGLIGIBLE / dof + min(0.5, _SPREADS * spread)
    right = min(_SPREADS * spread, 0.5 * math.log(3 + 3 * _NEGLIGIBLE / dof))
    logs = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1) * step
    weights = np.exp(dof * (logs - np.expm1(2 * logs) / 2))
    return _mean(weights, ndtr(shift - t * np.exp(logs)))


def noncentral_f_above(f: float, numerator: float, denominator: float, noncentrality: float) -> float:
    """Return P(F > f) for a noncentral F distribution.

    R: pf(f, df1, df2, ncp, lower.tail=FALSE). The mean of central beta tails over a Poisson number of extra pairs of
    degrees of freedom in the numerator.

    >>> round(noncentral_f_above(3.053936, 2, 156, 9.9375), 6)
    0.804895
    """
    pairs, weights = _poisson(noncentrality / 2)
    total = denominator + numerator * f
    # Of a share and its complement, the small one keeps its digits, so take the tail from that one.
    if numerator * f < denominator:
        return _mean(weights, betaincc(numerator / 2 + pairs, denominator / 2, numerator * f / total))
    return _mean(weights, betainc(denominator / 2, numerator / 2 + pairs, denominator / total))


def noncentral_chi2_above(x: float, dof: float, noncentrality: float) -> float:
    """Return P(X > x) for a noncentral chi-square distribution.

    R: pchisq(x, df, ncp, lower.tail=FALSE).

    >>> round(noncentral_chi2_above(5.991465, 2, 9.0), 6)
    0.770683
    """
    pairs, weights = _poisson(noncentrality / 2)
    return _mean(weights, chdtrc(dof + 2 * pairs, x))


def _poisson(mean: float) -> tuple[Array, Array]:
    """Return the Poisson counts that matter and their weights up to a common factor.

    The factor cancels in the mean, and computing it by gammaln would lose digits.
    """
    reach = _SPREADS * math.sqrt(mean) + _NEGLIGIBLE
    counts = np.arange(max(0.0, math.floor(mean - reach)), math.ceil(mean + reach) + 1 if mean else 1.0)
    logs = xlogy(counts, mean) - gammaln(counts + 1)
    return counts, np.exp(logs - logs.max())


def _mean(weights: Array, tails: npt.ArrayLike) -> float:
    return min(1.0, float(np.dot(weights, tails) / weights.sum()))
