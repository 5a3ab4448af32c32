"""One-sided bounds of pairs with a slice that is small, all right or all wrong: melded from Clopper and Pearson's distributions.

A score bound takes a slice of ten right answers for more than it shows: at a true rate of .8 that happens in 11 % of runs, and a
gap of .2 would then be "proven" absent. Melded bounds (Fay, Proschan & Brittain 2015, Biometrics 71:146) do not err that way.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincinv

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.slices.pair_scores import bisect

# Nodes of Gauss and Legendre's rule over the quantiles of one rate: 64 give five digits.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A quadrature has five digits, and 2^-26 is below them.
_HALVINGS = 26
_QUANTILES, _SHARES = (_NODES + 1) / 2, _WEIGHTS / 2


def melded_upper(x1: Array, n1: Array, x2: Array, n2: Array, alpha: float) -> Array:
    """Return the upper bound of each x1 / n1 - x2 / n2 at a one-sided alpha.

    >>> arms = [np.array([float(count)]) for count in (10, 10, 10, 10)]
    >>> melded_upper(*arms, 0.05).round(4)
    array([0.2589])
    """
    highest = _upper_quantiles(x1, n1)

    def beyond(difference: Array) -> Array:
        # Without a right answer the second rate's lower bound is 0 for certain, and a quadrature would cross a step.
        certain = 1 - _upper_cdf(x1, n1, difference[:, None])[:, 0]
        return np.where(x2 > 0, _mean(_lower_cdf(x2, n2, highest - difference[:, None])), certain)

    return bisect(beyond, alpha, -np.ones_like(x1), np.ones_like(x1), _HALVINGS)


def melded_lower_ratio(x1: Array, n1: Array, x2: Array, n2: Array, alpha: float) -> Array:
    """Return the lower bound of each (x1 / n1) / (x2 / n2) at a one-sided alpha.

    >>> arms = [np.array([float(count)]) for count in (10, 10, 10, 10)]
    >>> melded_lower_ratio(*arms, 0.05).round(4)
    array([0.7411])
    """
    highest = _upper_quantiles(x2, n2)

    def above(share: Array) -> Array:
        ratio = share / (1 - share)
        return 1 - _mean(_lower_cdf(x1, n1, ratio[:, None] * highest))

    share = bisect(above, 1 - alpha, np.zeros_like(x1), np.full_like(x1, 1 - 1e-12), _HALVINGS)
    return share / (1 - share)


def _mean(values: Array) -> Array:
    return np.asarray(values @ _SHARES)


def _upper_quantiles(x: Array, n: Array) -> Array:
    """Return pairs x nodes quantiles of the upper confidence distribution, Beta(x + 1, n - x); 1 where all are right."""
    quantiles = betaincinv((x + 1)[:, None], np.maximum(n - x, 1.0)[:, None], _QUANTILES)
    return np.where((x < n)[:, None], quantiles, 1.0)


def _upper_cdf(x: Array, n: Array, at: Array) -> Array:
    inside = betainc((x + 1)[:, None], np.maximum(n - x, 1.0)[:, None], np.clip(at, 0.0, 1.0))
    return np.where((x < n)[:, None], inside, at >= 1.0)


def _lower_cdf(x: Array, n: Array, at: Array) -> Array:
    inside = betainc(np.maximum(x, 1.0)[:, None], (n - x + 1)[:, None], np.clip(at, 0.0, 1.0))
    return np.where((x > 0)[:, None], inside, at >= 0.0)
