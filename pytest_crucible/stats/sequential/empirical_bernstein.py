"""Confidence sequences for bounded means in closed form: predictable mixtures, empirical Bernstein and Hoeffding.

They are wider than betting, and take microseconds. Waudby-Smith & Ramdas 2024 (JRSS B 86:1), Theorems 1 and 2.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative, Array, Range
from pytest_crucible.stats.sequential.confidence_sequence import ConfidenceSequence, both_ends, running_mean
from pytest_crucible.stats.sequential.wealth import stakes


def empirical_bernstein_sequence(
    values: npt.ArrayLike,
    *,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    intersect: bool = True,
) -> ConfidenceSequence:
    """Return the predictable-mixture empirical Bernstein sequence: its width follows the spread of the values.

    Python: confseq.predmix.predmix_empbern_twosided_cs (with `intersect=False`). The interval is centred on the mean
    weighted by the stakes, so that a trend may carry the running mean out of it.

    >>> print(empirical_bernstein_sequence([0.8, 0.9] * 50))
    empirical bernstein: 0.850 [0.773, 0.925] after 100 values, holds at every n with 95 %
    """
    return both_ends(
        _bernstein_ends,
        values,
        bounds=bounds,
        alpha=alpha,
        alternative=alternative,
        intersect=intersect,
        method="empirical bernstein",
    )


def hoeffding_sequence(
    values: npt.ArrayLike,
    *,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    intersect: bool = True,
) -> ConfidenceSequence:
    """Return the predictable-mixture Hoeffding sequence: its width depends on the bounds and n only.

    Python: confseq.predmix.predmix_hoeffding_cs (with `intersect=False`).

    >>> print(hoeffding_sequence([0.8, 0.9] * 50))
    hoeffding: 0.850 [0.698, 1.000] after 100 values, holds at every n with 95 %
    """
    return both_ends(
        _hoeffding_ends,
        values,
        bounds=bounds,
        alpha=alpha,
        alternative=alternative,
        intersect=intersect,
        method="hoeffding",
    )


def _bernstein_ends(unit: Array, tail: float) -> Array:
    # Cut at c = 1/2, which the paper suggests: the cost below grows without bound as a stake nears 1.
    stake_sizes = np.minimum(stakes(unit, tail), 0.5)
    before = np.concatenate(([0.0], running_mean(unit)[:-1]))
    # v_i psi_E(lambda_i) of Theorem 2, around the mean predicted before the value.
    cost = (unit - before) ** 2 * (-np.log1p(-stake_sizes) - stake_sizes)
    return _mixture_ends(unit, stake_sizes, cost, tail)


def _hoeffding_ends(unit: Array, tail: float) -> Array:
    count = np.arange(1, unit.size + 1)
    # The predictable stakes of Theorem 1; psi_H(lambda) = lambda^2 / 8.
    stake_sizes = np.minimum(np.sqrt(8 * math.log(1 / tail) / (count * np.log1p(count))), 1.0)
    return _mixture_ends(unit, stake_sizes, stake_sizes**2 / 8, tail)


def _mixture_ends(unit: Array, weights: Array, cost: Array, tail: float) -> Array:
    """Return the weighted mean less (log(1 / tail) + the mixture's cost) / the sum of the weights."""
    return np.asarray((np.cumsum(weights * unit - cost) - math.log(1 / tail)) / np.cumsum(weights))
