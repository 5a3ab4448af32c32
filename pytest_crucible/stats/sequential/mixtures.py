"""Boundaries that a sum of centred values crosses with probability at most alpha at any time.

A boundary is a function of intrinsic time v, the accumulated variance: the sum S_n stays below boundary(v_n) for all n.
Mixtures are tightest near one chosen v; stitching keeps the rate of the law of the iterated logarithm.
Howard, Ramdas, McAuliffe & Sekhon 2021 (Annals of Statistics 49:1055), Propositions 5 and 9 and Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaln, log_ndtr, zeta

from pytest_crucible.stats.arrays import Alternative, Array, Range, check_share, finite
from pytest_crucible.stats.sequential.confidence_sequence import ConfidenceSequence, both_ends, running_mean

LogMixture = Callable[[Array], Array]
"""From sums to the log of the mixture supermartingale; rising."""


def normal_mixture_boundary(
    intrinsic_time: npt.ArrayLike,
    *,
    alpha: float,
    best_at: float,
    tuned_alpha: float | None = None,
    one_sided: bool = False,
) -> Array:
    """Return the normal-mixture boundary of sub-Gaussian sums, tightest at `best_at`.

    Two-sided for |S|, one-sided for S. `tuned_alpha` is the alpha for which `best_at` is best, by default `alpha`.
    Python: confseq.boundaries.normal_mixture_bound (whose `alpha_opt` is 0.05 by default).

    >>> normal_mixture_boundary([100.0], alpha=0.05, best_at=100.0).round(6).tolist()
    [30.35209]
    """
    time, tuned = _check_times(intrinsic_time, alpha, best_at, tuned_alpha)
    threshold = math.log(1 / alpha)
    if not one_sided:
        rho = mixing_variance(best_at, tuned)
        return np.asarray(np.sqrt((time + rho) * (np.log1p(time / rho) + 2 * threshold)))
    # Half of the mixture lies on the wrong side of 0, so a one-sided boundary is tuned at twice alpha.
    rho = mixing_variance(best_at, 2 * tuned)

    def log_mixture(total: Array) -> Array:
        spread = time + rho
        scaled = total**2 / (2 * spread) + log_ndtr(total / np.sqrt(spread))
        return np.asarray(0.5 * np.log(4 * rho / spread) + scaled)

    return _crossing(log_mixture, time, threshold)


def gamma_exponential_boundary(
    intrinsic_time: npt.ArrayLike,
    *,
    alpha: float,
    best_at: float,
    scale: float,
    tuned_alpha: float | None = None,
) -> Array:
    """Return the one-sided gamma-exponential mixture boundary of sub-exponential sums.

    `scale` is that of the sums; for empirical Bernstein it is the range. Python:
    confseq.boundaries.gamma_exponential_mixture_bound (`scale` is its c).

    >>> gamma_exponential_boundary([20.0], alpha=0.025, best_at=20.0, scale=1.0, tuned_alpha=0.05).round(6).tolist()
    [16.771691]
    """
    time, tuned = _check_times(intrinsic_time, alpha, best_at, tuned_alpha)
    if not scale > 0:
        raise ValueError(f"the scale of a sub-exponential sum must be positive, not {scale!r}")
    shape = mixing_variance(best_at, 2 * tuned) / scale**2
    constant = shape * math.log(shape) - float(gammaln(shape)) - math.log(float(gammainc(shape, shape)))
    clock = time / scale**2

    def log_mixture(total: Array) -> Array:
        reach = total / scale + clock
        mixed = gammaln(clock + shape) + np.log(gammainc(clock + shape, reach + shape))
        return np.asarray(constant + mixed - (clock + shape) * np.log(reach + shape) + reach)

    return _crossing(log_mixture, time, math.log(1 / alpha))


def stitched_boundary(
    intrinsic_time: npt.ArrayLike,
    *,
    alpha: float,
    starts_at: float,
    scale: float = 0.0,
    power: float = 1.4,
    ratio: float = 2.0,
) -> Array:
    """Return the one-sided polynomial stitched boundary of sub-gamma sums.

    In closed form, with the best rate as time grows; constant before `starts_at`. `ratio` is the growth of the stitched
    periods and `power` the rate at which their errors fall. Python: confseq.boundaries.poly_stitching_bound (v_min, c,
    s, eta in this order).

    >>> stitched_boundary([100.0], alpha=0.05, starts_at=5.0).round(6).tolist()
    [36.512224]
    """
    time, _ = _check_times(intrinsic_time, alpha, starts_at, None)
    if scale < 0 or power <= 1 or ratio <= 1:
        raise ValueError(f"expected scale >= 0, power > 1 and ratio > 1, not {scale!r}, {power!r} and {ratio!r}")
    time = np.maximum(time, starts_at)
    constant = math.log(float(zeta(power)) / math.log(ratio) ** power) + math.log(1 / alpha)
    log_cost = power * np.log(np.log(ratio * time / starts_at)) + constant
    linear = (math.sqrt(ratio) + 1) / 2 * scale * log_cost
    return np.asarray(np.sqrt((ratio**0.25 + ratio**-0.25) ** 2 / 2 * time * log_cost + linear**2) + linear)


def mixture_hoeffding_sequence(
    values: npt.ArrayLike,
    *,
    best_at: float,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    intersect: bool = True,
) -> ConfidenceSequence:
    """Return the two-sided Hoeffding sequence by a normal mixture, tightest after `best_at` values.

    Python: confseq.conjmix_bounded.conjmix_hoeffding_twosided_cs (with `intersect=False`; t_opt is `best_at`).

    >>> print(mixture_hoeffding_sequence([0.8, 0.9] * 50, best_at=100))
    mixture hoeffding: 0.850 [0.698, 1.000] after 100 values, holds at every n with 95 %
    """

    def ends(unit: Array, tail: float) -> Array:
        count = np.arange(1, unit.size + 1)
        return running_mean(unit) - normal_mixture_boundary(count / 4, alpha=2 * tail, best_at=best_at / 4) / count

    return both_ends(
        ends,
        values,
        bounds=bounds,
        alpha=alpha,
        alternative="two-sided",
        intersect=intersect,
        method="mixture hoeffding",
    )


def mixture_bernstein_sequence(
    values: npt.ArrayLike,
    *,
    best_at: float,
    bounds: Range = (0.0, 1.0),
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    intersect: bool = True,
) -> ConfidenceSequence:
    """Return the empirical Bernstein sequence by a gamma-exponential mixture, centred on the running mean.

    `best_at` is the intrinsic time where it is tightest: values times their variance, once scaled to [0, 1]. The lower
    end of the two-sided sequence is confseq.conjmix_bounded.conjmix_empbern_lower_cs, which halves alpha by itself.

    >>> print(mixture_bernstein_sequence([0.8, 0.9] * 50, best_at=2.5))
    mixture bernstein: 0.850 [0.797, 0.903] after 100 values, holds at every n with 95 %
    """

    def ends(unit: Array, tail: float) -> Array:
        count, mean = np.arange(1, unit.size + 1), running_mean(unit)
        # The prediction of the first value is 1/2, the middle of the range: nothing is known yet.
        time = np.cumsum((unit - np.concatenate(([0.5], mean[:-1]))) ** 2)
        return mean - gamma_exponential_boundary(time, alpha=tail, best_at=best_at, scale=1.0) / count

    return both_ends(
        ends,
        values,
        bounds=bounds,
        alpha=alpha,
        alternative=alternative,
        intersect=intersect,
        method="mixture bernstein",
    )


def mixing_variance(best_at: float, alpha: float) -> float:
    """Return the rho of a normal mixture that is tightest at this intrinsic time.

    Proposition 3 of Howard et al.
    """
    check_share(alpha, "the alpha for which a mixture is tuned")
    threshold = 2 * math.log(1 / alpha)
    return best_at / (threshold + math.log1p(threshold))


def _check_times(
    intrinsic_time: npt.ArrayLike, alpha: float, best_at: float, tuned_alpha: float | None
) -> tuple[Array, float]:
    tuned = alpha if tuned_alpha is None else tuned_alpha
    check_share(alpha, "alpha")
    time = finite(intrinsic_time, name="intrinsic times")
    negative = int((time < 0).sum())
    if negative or not 0 < best_at < math.inf:
        raise ValueError(f"intrinsic times must not be negative: {negative} are, and the chosen one is {best_at!r}")
    return time, tuned


def _crossing(log_mixture: LogMixture, time: Array, threshold: float) -> Array:
    """Return where each mixture reaches the threshold: doubling, then halving to the last bits, all at once."""
    low, high = np.zeros(time.size), np.maximum(time, 1.0)
    while (below := log_mixture(high) < threshold).any():
        high = np.where(below, 2 * high, high)
    # 60 halvings reach the last bit of a double.
    for _ in range(60):
        middle = (low + high) / 2
        below = log_mixture(middle) < threshold
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
