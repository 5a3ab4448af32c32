"""E-values: evidence against a hypothesis, as the wealth of a bettor against it; at most 1 on average if it is true.

An e-value of 20 corresponds to p = 0.05. E-values stay valid when looked at after each sample; they may be averaged
and, if independent, multiplied. Ramdas, Grunwald, Vovk & Shafer 2023 (Statistical Science 38:576).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative, Array, Range, check_alternative, check_share, finite
from pytest_crucible.stats.sequential.confidence_sequence import unit_mean, unit_values
from pytest_crucible.stats.sequential.wealth import LARGEST_BET, check_largest_bet, log_gains, stakes

# exp of a larger number is infinite.
LARGEST_LOG = 709.0


def e_process(
    values: npt.ArrayLike,
    *,
    mean: float,
    bounds: Range = (0.0, 1.0),
    alternative: Alternative = "greater",
    alpha: float = 0.05,
    largest_bet: float = LARGEST_BET,
) -> Array:
    """Return the wealth after each value of a bettor, starting with 1, that the true mean exceeds `mean`.

    With alternative="less" the bet is on a smaller mean; two-sided, half of the stake goes to each side. `alpha` only
    sets the size of the stakes: any value gives valid e-values. Values lie within `bounds`. The wealth exceeds 1 /
    alpha when the one-sided `betting_sequence` excludes `mean`.

    >>> e_process([1, 1, 0, 1], mean=0.5).round(4).tolist()
    [1.5, 2.25, 1.125, 1.6875]
    """
    check_alternative(alternative)
    unit, null = unit_values(values, bounds), unit_mean(mean, bounds)
    check_share(alpha, "alpha")
    check_largest_bet(largest_bet)
    if alternative == "two-sided":
        # The mean of two e-processes is an e-process.
        greater = _wealth(unit, null, alpha / 2, largest_bet)
        return np.asarray((greater + _wealth(1 - unit, 1 - null, alpha / 2, largest_bet)) / 2)
    if alternative == "less":
        unit, null = 1 - unit, 1 - null
    return _wealth(unit, null, alpha, largest_bet)


def e_value(
    values: npt.ArrayLike,
    *,
    mean: float,
    bounds: Range = (0.0, 1.0),
    alternative: Alternative = "greater",
    alpha: float = 0.05,
    largest_bet: float = LARGEST_BET,
) -> float:
    """Return the last value of `e_process`: evidence against "the true mean is at most `mean`".

    >>> e_value([1, 1, 0, 1], mean=0.5)
    1.6875
    """
    wealth = e_process(values, mean=mean, bounds=bounds, alternative=alternative, alpha=alpha, largest_bet=largest_bet)
    return float(wealth[-1])


def always_valid_p_values(e_values: npt.ArrayLike) -> Array:
    """Return the p-value after each look of an e-process: 1 / the largest wealth so far, at most 1.

    P(p <= alpha) is at most alpha under the null whenever sampling stops (Ville's inequality).

    >>> always_valid_p_values([0.5, 4.0, 2.0, 40.0]).tolist()
    [1.0, 0.25, 0.25, 0.025]
    """
    return np.asarray(1 / np.maximum(np.maximum.accumulate(_check_e_values(e_values)), 1.0))


def merge_e_values(e_values: npt.ArrayLike, *, independent: bool = False) -> float:
    """Return one e-value from several for the same hypothesis: the mean, or the product of independent ones.

    The mean is valid under any dependence. Vovk & Wang 2021 (Annals of Statistics 49:1736). Raises ValueError without
    e-values.

    >>> merge_e_values([4.0, 10.0]), merge_e_values([4.0, 10.0], independent=True)
    (7.0, 40.0)
    """
    array = _check_e_values(e_values)
    if not array.size:
        raise ValueError("0 e-values cannot be merged")
    if not independent:
        return float(array.mean())
    return 0.0 if (array == 0).any() else math.prod(array.tolist())


def e_benjamini_hochberg(e_values: Sequence[float | None], *, alpha: float = 0.05) -> list[bool]:
    """Return which hypotheses to reject so that the false discovery rate is at most alpha.

    Valid under any dependence. Rejects the k largest e-values, for the largest k where the k-th is at least m / (alpha
    k). A hypothesis with None is never rejected, and still counts in m. Wang & Ramdas 2022 (JRSS B 84:822).

    >>> e_benjamini_hochberg([100.0, 1.0, 50.0, None])
    [True, False, True, False]
    """
    check_share(alpha, "alpha")
    evidence = _check_e_values([0.0 if value is None else value for value in e_values])
    ordered = np.sort(evidence)[::-1]
    # The slack keeps an e-value of exactly m / (alpha k) on the rejecting side of rounding.
    enough = np.flatnonzero(ordered * np.arange(1, evidence.size + 1) >= evidence.size / alpha * (1 - 1e-12))
    threshold = ordered[enough[-1]] if enough.size else math.inf
    return [bool(value >= threshold) for value in evidence]


def _wealth(unit: Array, null: float, tail: float, largest_bet: float) -> Array:
    log_wealth = np.cumsum(log_gains(unit, stakes(unit, tail), null, largest_bet))
    return np.asarray(np.exp(np.minimum(log_wealth, LARGEST_LOG)))


def _check_e_values(e_values: npt.ArrayLike) -> Array:
    array = finite(e_values, name="e-values")
    negative = int((array < 0).sum())
    if negative:
        raise ValueError(f"{negative} of {array.size} e-values are negative; expected numbers of at least 0")
    return array
