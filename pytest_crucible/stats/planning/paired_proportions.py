"""Power, pairs and smallest detectable difference of two proportions measured on the same samples.

Connor's (1987) formula, and McNemar's tests by enumeration of every table that n pairs can give. `discordance` is the
share of pairs in which the arms disagree; a difference cannot be larger.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, gammaln, ndtr, ndtri, xlog1py, xlogy

from pytest_crucible.stats.observations import Array, check_choice, check_share
from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_power, first_whole, rising_root, whole

McNemar = Literal["connor", "exact", "mid-p", "asymptotic"]
"""Connor's formula for the asymptotic test, or a test whose rejections are enumerated."""
STEADY = 10
"""An enumerated power saws up and down with n: a size is enough when this many sizes from it on are."""


def detectable_paired_proportions(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest difference of paired proportions that a two-sided test on n pairs detects, or None if none is.

    Connor (1987) solved for the difference: with its square roots squared away the equation is a quadratic.

    >>> round(detectable_paired_proportions(200, 0.1), 3)
    0.062
    """
    z, reach = _quantiles(alpha / 2, power)
    _check_discordance(discordance)
    inner = n + reach * reach - z * z
    if n < 1 or inner < 0:
        return None
    difference = math.sqrt(discordance) * (math.sqrt(n) * z + reach * math.sqrt(inner)) / (n + reach * reach)
    # Squaring has added a solution of the mirrored equation, whose power is 1 - power: few pairs have only that one.
    mirrored = reach > 0 and math.sqrt(n) * difference < z * math.sqrt(discordance)
    return difference if 0 < difference <= discordance and not mirrored else None


def samples_for_paired_proportions(
    difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Pairs that a two-sided test needs for this difference. None for 0, which no number of pairs detects.

    Connor 1987 (Biometrics 43:207). Raises ValueError when the difference exceeds the discordance.

    >>> samples_for_paired_proportions(0.07, 0.23)
    367
    """
    return None if difference == 0 else whole(_connor_pairs(difference, discordance, alpha, power))


def power_paired_proportions(n: int, difference: float, discordance: float, *, alpha: float = 0.05) -> float:
    """Chance that a two-sided test on n pairs detects this difference on its own side. Connor 1987.

    >>> round(power_paired_proportions(300, 0.07, 0.23), 4)
    0.7171
    """
    check_share(alpha, "alpha")
    _check_discordance(discordance)
    spread = _spread(difference, discordance)
    distance = math.sqrt(n) * abs(difference) + float(ndtri(alpha / 2)) * math.sqrt(discordance)
    return float(ndtr(distance / spread)) if spread else float(distance > 0)


def power_mcnemar(
    n: int, gained_rate: float, lost_rate: float, *, method: McNemar = "mid-p", alpha: float = 0.05
) -> float:
    """Chance that McNemar's two-sided test on n pairs rejects, where these shares of samples are gained and lost.

    Enumerates the number of discordant pairs, Binomial(n, gained + lost), and of those gained among them. At no
    effect this is the true size of the test, at most alpha for the exact one. `connor` is the normal formula.

    >>> round(power_mcnemar(100, 0.2, 0.08, method="exact"), 6), round(power_mcnemar(100, 0.2, 0.08), 6)
    (0.555884, 0.619712)
    """
    check_share(alpha, "alpha")
    check_choice(method, get_args(McNemar), "method")
    _check_rates(gained_rate, lost_rate)
    if n < 0:
        raise ValueError(f"the number of pairs cannot be {n}")
    if method == "connor":
        return power_paired_proportions(n, gained_rate - lost_rate, gained_rate + lost_rate, alpha=alpha)
    discordance = gained_rate + lost_rate
    if discordance == 0:
        return 0.0
    discordant, weights = _binomial(n, min(1.0, discordance))
    limits = _rejected_up_to(discordant, method, alpha)
    some = limits >= 0
    limits, discordant, weights = limits[some], discordant[some], weights[some] / weights.sum()
    share = gained_rate / discordance
    rejected = _at_most(limits, discordant, share) + _at_most(limits, discordant, 1 - share)
    return float(np.dot(weights, rejected))


def samples_for_mcnemar(
    gained_rate: float, lost_rate: float, *, method: McNemar = "mid-p", alpha: float = 0.05, power: float = 0.8
) -> SampleSize:
    """Pairs that McNemar's two-sided test needs, where these shares of samples are gained and lost.

    Enumerated power does not rise with every pair: the answer is the first size from which on ten sizes in a row have
    the power. Infinite when as many are lost as gained.

    >>> [samples_for_mcnemar(0.15, 0.08, method=method).ceiling for method in ("connor", "exact", "mid-p")]
    [367, 389, 364]
    """
    check_power(power, alpha)
    check_choice(method, get_args(McNemar), "method")
    _check_rates(gained_rate, lost_rate)
    if gained_rate == lost_rate:
        return NEVER
    if method == "connor":
        n = _connor_pairs(gained_rate - lost_rate, gained_rate + lost_rate, alpha, power)
        ceiling: int | None = whole(n)
    else:
        ceiling = first_whole(lambda n: _steadily(n, gained_rate, lost_rate, method, alpha, power), 1)
        n = math.inf if ceiling is None else float(ceiling)
    if ceiling is None:
        return NEVER
    reached = power_mcnemar(ceiling, gained_rate, lost_rate, method=method, alpha=alpha)
    return SampleSize(n=n, ceiling=ceiling, power=reached)


def detectable_mcnemar(
    n: int, discordance: float, *, method: McNemar = "mid-p", alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest difference that McNemar's two-sided test on n pairs detects at this discordance. None if none is.

    >>> round(detectable_mcnemar(200, 0.2, method="connor"), 3), round(detectable_mcnemar(200, 0.2, method="exact"), 3)
    (0.088, 0.091)
    """
    check_power(power, alpha)
    check_choice(method, get_args(McNemar), "method")
    _check_discordance(discordance)
    if method == "connor":
        return detectable_paired_proportions(n, discordance, alpha=alpha, power=power)

    def missing(difference: float) -> float:
        half = difference / 2
        return power_mcnemar(n, discordance / 2 + half, discordance / 2 - half, method=method, alpha=alpha) - power

    if discordance == 0 or missing(discordance) < 0:
        return None
    return rising_root(missing, 0.0, most=discordance)


def _connor_pairs(difference: float, discordance: float, alpha: float, power: float) -> float:
    z, reach = _quantiles(alpha / 2, power)
    _check_discordance(discordance)
    if abs(difference) > discordance + 1e-12:
        raise ValueError(f"a difference of {difference!r} cannot come from a discordance of {discordance!r}")
    spread = _spread(difference, discordance)
    return ((z * math.sqrt(discordance) + reach * spread) / difference) ** 2


def _spread(difference: float, discordance: float) -> float:
    """Standard deviation of one pair's difference."""
    return math.sqrt(max(discordance - difference * difference, 0.0))


def _steadily(n: int, gained_rate: float, lost_rate: float, method: McNemar, alpha: float, power: float) -> bool:
    sizes = range(n, n + STEADY)
    return all(power_mcnemar(size, gained_rate, lost_rate, method=method, alpha=alpha) >= power for size in sizes)


def _binomial(n: int, share: float) -> tuple[Array, Array]:
    """The counts that matter and their probabilities up to a common factor."""
    mean, reach = n * share, 12 * math.sqrt(n * share * (1 - share)) + 45
    counts = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1, dtype=np.float64)
    logs = xlogy(counts, share) + xlog1py(n - counts, -share) - gammaln(counts + 1) - gammaln(n - counts + 1)
    return counts, np.exp(logs - logs.max())


def _rejected_up_to(discordant: Array, method: McNemar, alpha: float) -> Array:
    """The largest smaller count that the test rejects, for each number of discordant pairs; -1 where none is."""
    limits = np.floor((discordant + float(ndtri(alpha / 2)) * np.sqrt(discordant)) / 2)
    limits = np.clip(limits, -1, np.ceil(discordant / 2) - 1)
    while (more := _rejects(limits + 1, discordant, method, alpha)).any():
        limits += more
    while (fewer := (limits >= 0) & ~_rejects(limits, discordant, method, alpha)).any():
        limits -= fewer
    return limits


def _rejects(smaller: Array, discordant: Array, method: McNemar, alpha: float) -> npt.NDArray[np.bool_]:
    """Whether the two-sided p-value of `smaller` against the rest is at most alpha; equal counts have p = 1."""
    return (2 * smaller < discordant) & (_p_values(np.maximum(smaller, 0), discordant, method) <= alpha)


def _p_values(smaller: Array, discordant: Array, method: McNemar) -> Array:
    if method == "asymptotic":
        z = (2 * smaller - discordant) / np.sqrt(np.maximum(discordant, 1))
        return np.asarray(2 * ndtr(z), dtype=np.float64)
    up_to = _at_most(smaller, discordant, 0.5)
    if method == "exact":
        return 2 * up_to
    return up_to + np.where(smaller >= 1, _at_most(np.maximum(smaller - 1, 0), discordant, 0.5), 0.0)


def _at_most(counts: Array, of: Array, share: float) -> Array:
    """Binomial distribution function; scipy wants its numbers of trials as integers."""
    return np.asarray(bdtr(counts, of.astype(np.int64), share), dtype=np.float64)


def _quantiles(tail: float, power: float) -> tuple[float, float]:
    check_share(tail, "alpha")
    check_share(power, "power")
    return -float(ndtri(tail)), float(ndtri(power))


def _check_discordance(discordance: float) -> None:
    if not 0 <= discordance <= 1:
        raise ValueError(f"discordance is a share between 0 and 1, not {discordance!r}")


def _check_rates(gained_rate: float, lost_rate: float) -> None:
    if not (gained_rate >= 0 and lost_rate >= 0 and gained_rate + lost_rate <= 1 + 1e-12):
        raise ValueError(
            f"shares gained and lost are at least 0 and at most 1 together: {gained_rate!r}, {lost_rate!r}"
        )
