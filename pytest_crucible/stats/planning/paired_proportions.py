"""Power and sample size for two proportions measured on the same samples.

Connor's (1987) formula, and McNemar's tests by enumerating every table that n pairs can give. `discordance` is the
share of pairs in which the arms disagree; a difference cannot be larger.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, gammaln, ndtr, ndtri, xlog1py, xlogy

from pytest_crucible.stats.arrays import Array, check_choice, check_share
from pytest_crucible.stats.planning.roots import NEVER, STEADY, SampleSize, check_power, round_up, smallest_integer

McNemar = Literal["connor", "exact", "mid-p", "asymptotic"]
"""Connor's formula for the asymptotic test, or a test whose rejections are enumerated."""


def detectable_paired_proportions(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Return the smallest difference that a two-sided test on n pairs detects, or None.

    Connor's (1987) equation solved for the difference: squaring away its square roots gives a quadratic.

    >>> round(detectable_paired_proportions(200, 0.1), 3)
    0.062
    """
    z_alpha, z_power = _quantiles(alpha / 2, power)
    _check_discordance(discordance)
    inner = n + z_power * z_power - z_alpha * z_alpha
    if n < 1 or inner < 0:
        return None
    difference = (
        math.sqrt(discordance) * (math.sqrt(n) * z_alpha + z_power * math.sqrt(inner)) / (n + z_power * z_power)
    )
    # Squaring has added a solution of the mirrored equation, whose power is 1 - power: few pairs have only that one.
    mirrored = z_power > 0 and math.sqrt(n) * difference < z_alpha * math.sqrt(discordance)
    return difference if 0 < difference <= discordance and not mirrored else None


def samples_for_paired_proportions(
    difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Return the number of pairs that a two-sided test needs to detect a difference.

    Connor 1987 (Biometrics 43:207). None for a difference of 0, which no number of pairs detects. Raises ValueError
    when the difference exceeds the discordance.

    >>> samples_for_paired_proportions(0.07, 0.23)
    367
    """
    return None if difference == 0 else round_up(_connor_pairs(difference, discordance, alpha, power))


def power_paired_proportions(n: int, difference: float, discordance: float, *, alpha: float = 0.05) -> float:
    """Return the chance that a two-sided test on n pairs detects a difference on its own side.

    Connor 1987.
    """
    check_share(alpha, "alpha")
    _check_discordance(discordance)
    spread = _spread(difference, discordance)
    distance = math.sqrt(n) * abs(difference) + float(ndtri(alpha / 2)) * math.sqrt(discordance)
    return float(ndtr(distance / spread)) if spread else float(distance > 0)


def power_mcnemar(
    n: int, gained_rate: float, lost_rate: float, *, method: McNemar = "mid-p", alpha: float = 0.05
) -> float:
    """Return the power of McNemar's two-sided test on n pairs, given the shares gained and lost.

    Enumerates the number of discordant pairs, Binomial(n, gained + lost), and of the gained ones among them. At no
    effect this is the true size of the test, at most alpha for the exact one. `connor` is the normal formula.
    """
    check_share(alpha, "alpha")
    check_choice(method, get_args(McNemar), "method")
    _check_rates(gained_rate, lost_rate)
    if n < 0:
        raise ValueError(f"the number of pairs must be at least 0, not {n}")
    if method == "connor":
        return power_paired_proportions(n, gained_rate - lost_rate, gained_rate + lost_rate, alpha=alpha)
    discordance = gained_rate + lost_rate
    if discordance == 0:
        return 0.0
    discordant, weights = _binomial(n, min(1.0, discordance))
    limits = _rejection_limits(discordant, method, alpha)
    rejectable = limits >= 0
    # Numbers of discordant pairs too small to reject add nothing to the power, but their weight stays in the divisor.
    limits, discordant, weights = limits[rejectable], discordant[rejectable], weights[rejectable] / weights.sum()
    share = gained_rate / discordance
    rejected = _binomial_cdf(limits, discordant, share) + _binomial_cdf(limits, discordant, 1 - share)
    return float(np.dot(weights, rejected))


def samples_for_mcnemar(
    gained_rate: float, lost_rate: float, *, method: McNemar = "mid-p", alpha: float = 0.05, power: float = 0.8
) -> SampleSize:
    """Return the number of pairs that McNemar's two-sided test needs, given the shares gained and lost.

    Enumerated power does not rise with every pair: the answer is the first size from which ten sizes in a row have the
    power. Infinite when as many samples are lost as gained.

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
        ceiling: int | None = round_up(n)
    else:
        ceiling = smallest_integer(lambda n: _keeps_power(n, gained_rate, lost_rate, method, alpha, power), 1)
        n = math.inf if ceiling is None else float(ceiling)
    if ceiling is None:
        return NEVER
    reached = power_mcnemar(ceiling, gained_rate, lost_rate, method=method, alpha=alpha)
    return SampleSize(n=n, ceiling=ceiling, power=reached)


def _connor_pairs(difference: float, discordance: float, alpha: float, power: float) -> float:
    z_alpha, z_power = _quantiles(alpha / 2, power)
    _check_discordance(discordance)
    if abs(difference) > discordance + 1e-12:
        raise ValueError(f"a difference of {difference!r} cannot come from a discordance of {discordance!r}")
    spread = _spread(difference, discordance)
    return ((z_alpha * math.sqrt(discordance) + z_power * spread) / difference) ** 2


def _spread(difference: float, discordance: float) -> float:
    """Return the standard deviation of one pair's difference."""
    return math.sqrt(max(discordance - difference * difference, 0.0))


def _keeps_power(n: int, gained_rate: float, lost_rate: float, method: McNemar, alpha: float, power: float) -> bool:
    sizes = range(n, n + STEADY)
    return all(power_mcnemar(size, gained_rate, lost_rate, method=method, alpha=alpha) >= power for size in sizes)


def _binomial(n: int, share: float) -> tuple[Array, Array]:
    """Return the counts that matter and their binomial probabilities up to a common factor."""
    # Twelve standard deviations, and 45 counts for skewed cases: the probability beyond is below the last bit.
    mean, reach = n * share, 12 * math.sqrt(n * share * (1 - share)) + 45
    counts = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1, dtype=np.float64)
    logs = xlogy(counts, share) + xlog1py(n - counts, -share) - gammaln(counts + 1) - gammaln(n - counts + 1)
    return counts, np.exp(logs - logs.max())


def _rejection_limits(discordant: Array, method: McNemar, alpha: float) -> Array:
    """Return the largest smaller count that the test rejects, per number of discordant pairs; -1 if none."""
    # Start at the normal approximation, then walk to the exact limit: a step or two.
    limits = np.floor((discordant + float(ndtri(alpha / 2)) * np.sqrt(discordant)) / 2)
    limits = np.clip(limits, -1, np.ceil(discordant / 2) - 1)
    while (more := _rejects(limits + 1, discordant, method, alpha)).any():
        limits += more
    while (fewer := (limits >= 0) & ~_rejects(limits, discordant, method, alpha)).any():
        limits -= fewer
    return limits


def _rejects(smaller: Array, discordant: Array, method: McNemar, alpha: float) -> npt.NDArray[np.bool_]:
    """Return True where the two-sided p-value of `smaller` is at most alpha; equal counts have p = 1."""
    return (2 * smaller < discordant) & (_p_values(np.maximum(smaller, 0), discordant, method) <= alpha)


def _p_values(smaller: Array, discordant: Array, method: McNemar) -> Array:
    if method == "asymptotic":
        z = (2 * smaller - discordant) / np.sqrt(np.maximum(discordant, 1))
        return np.asarray(2 * ndtr(z), dtype=np.float64)
    tail = _binomial_cdf(smaller, discordant, 0.5)
    if method == "exact":
        return 2 * tail
    # Mid-p: twice the tail less the probability of the observed count.
    return tail + np.where(smaller >= 1, _binomial_cdf(np.maximum(smaller - 1, 0), discordant, 0.5), 0.0)


def _binomial_cdf(counts: Array, trials: Array, share: float) -> Array:
    """Return the binomial distribution function."""
    # scipy's bdtr wants the numbers of trials as integers.
    return np.asarray(bdtr(counts, trials.astype(np.int64), share), dtype=np.float64)


def _quantiles(tail: float, power: float) -> tuple[float, float]:
    check_share(tail, "alpha")
    check_share(power, "power")
    return -float(ndtri(tail)), float(ndtri(power))


def _check_discordance(discordance: float) -> None:
    if not 0 <= discordance <= 1:
        raise ValueError(f"discordance must be a share between 0 and 1, not {discordance!r}")


def _check_rates(gained_rate: float, lost_rate: float) -> None:
    if not (gained_rate >= 0 and lost_rate >= 0 and gained_rate + lost_rate <= 1 + 1e-12):
        raise ValueError(
            f"the shares gained and lost must be at least 0 and sum to at most 1, not {gained_rate!r}, {lost_rate!r}"
        )
