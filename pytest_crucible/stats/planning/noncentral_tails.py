"""Upper tails of the noncentral t, F and chi-square distributions, as mixtures of central ones.

Only positive terms are summed, so the tails are never NaN or negative and keep their digits on both sides.
scipy.special.nctdtr is NaN in its lower tail (scipy issues 25106 and 25470), and ncfdtr and chndtr have no upper tail
of their own.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

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


def _mean(weights: Array, tails: npt.ArrayLike) -> float:
    return min(1.0, float(np.dot(weights, tails) / weights.sum()))
