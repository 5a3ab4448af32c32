"""Posteriors of one rate and of two independent ones. For interpretation, never for gates.

A Beta(a, b) prior and k successes of n give Beta(a + k, b + n - k). The default Beta(1, 1) treats every rate as equally
likely beforehand. A posterior probability of 0.95 does not control an error rate: as a one-sided gate such an interval
errs in up to 8 % of experiments at a nominal 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, xlogy

from pytest_crucible.stats.arrays import Array, check_choice, check_counts, check_share
from pytest_crucible.stats.bayes.quadrature import Beta, beta_cdf, expectation
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import with_interval

Region = Literal["equal-tailed", "highest-density"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePosterior:
    """The posterior of a rate: Beta(a, b), its mean and an interval that holds `level` of it."""

    a: float
    b: float
    mean: float
    interval: Interval

    def __str__(self) -> str:
        return f"{with_interval(self.mean, self.interval)}, Beta({self.a:.6g}, {self.b:.6g}) ({self.interval.method})"


def beta_binomial(
    successes: int, n: int, *, prior: Beta = (1.0, 1.0), level: float = 0.95, region: Region = "equal-tailed"
) -> RatePosterior:
    """Return the posterior of a rate.

    R: qbeta(c(.025, .975), 1 + k, 1 + n - k). The highest-density interval is the shortest. Raises ValueError for a
    highest-density interval of a posterior that is highest at both ends: it has none.

    >>> posterior = beta_binomial(17, 20)
    >>> round(posterior.mean, 4), round(posterior.interval.low, 4), round(posterior.interval.high, 4)
    (0.8182, 0.6366, 0.9455)
    """
    check_share(level, "level")
    check_choice(region, get_args(Region), "region")
    a, b = _posterior(successes, n, prior)
    low, high = _highest_density((a, b), level) if region == "highest-density" else _equal_tails((a, b), level)
    interval = Interval(low=low, high=high, level=level, method=f"beta posterior, {region}")
    return RatePosterior(a=a, b=b, mean=a / (a + b), interval=interval)


def probability_rate_within(successes: int, n: int, low: float, high: float, *, prior: Beta = (1.0, 1.0)) -> float:
    """Return the posterior probability that a rate lies between `low` and `high`.

    >>> round(probability_rate_within(17, 20, 0.8, 1.0), 4)
    0.6296
    """
    if not low <= high:
        raise ValueError(f"the low end must not be above the high end, not {low!r} and {high!r}")
    beta = _posterior(successes, n, prior)
    return float(_probability_between(beta, np.array([low]), np.array([high]))[0])


def probability_superior(
    successes: int, n: int, baseline_successes: int, baseline_n: int, *, prior: Beta = (1.0, 1.0)
) -> float:
    """Return P(rate > baseline rate) for two independent posteriors under the same prior.

    The integral of f1(p) F2(p) over the rate with the smaller variance, accurate to about 1e-13 up to n = 1e5, where
    the finite sum for whole parameters has lost four more digits.

    >>> round(probability_superior(17, 20, 12, 20), 6)
    0.957253
    """
    candidate, baseline = _posteriors(successes, n, baseline_successes, baseline_n, prior)
    narrow, wide = min(
        (candidate, baseline), _exchange_failures(candidate, baseline), key=lambda pair: _variance(pair[0])
    )
    return min(1.0, expectation(narrow, lambda rate, rest: beta_cdf(wide, rate, rest)))


def expected_losses(
    successes: int, n: int, baseline_successes: int, baseline_n: int, *, prior: Beta = (1.0, 1.0)
) -> tuple[float, float]:
    """Return the expected losses of choosing the candidate and of choosing the baseline.

    E max(p2 - p1, 0) and E max(p1 - p2, 0): the rate given up by the choice. Their difference is exactly that of the
    posterior means.

    >>> [round(loss, 6) for loss in expected_losses(17, 20, 12, 20)]
    [0.002393, 0.229665]
    """
    candidate, baseline = _posteriors(successes, n, baseline_successes, baseline_n, prior)
    return _loss(candidate, baseline), _loss(baseline, candidate)


def probability_equivalent(
    successes: int,
    n: int,
    baseline_successes: int,
    baseline_n: int,
    *,
    margin: float,
    prior: Beta = (1.0, 1.0),
) -> float:
    """Return P(|rate - baseline rate| <= margin) for two independent posteriors.

    The region of practical equivalence, by quadrature over the rate with the smaller variance.

    >>> round(probability_equivalent(80, 100, 78, 100, margin=0.05), 4)
    0.5909
    """
    if not 0 <= margin <= 1:
        raise ValueError(f"a margin of rates must lie between 0 and 1, not {margin!r}")
    pair = _posteriors(successes, n, baseline_successes, baseline_n, prior)
    narrow, wide = sorted(pair, key=_variance)
    # The clipped probability has corners there; quadrature would lose digits across them.
    kinks = (margin, 1 - margin)
    return min(
        1.0, expectation(narrow, lambda rate, _: _probability_between(wide, rate - margin, rate + margin), kinks=kinks)
    )


def _loss(chosen: Beta, other: Beta) -> float:
    """Return E max(other - chosen, 0), by quadrature over the rate with the smaller variance.

    For a fixed x, E max(x - p, 0) = (x - mean) I_x(a, b) + x^a (1 - x)^b / ((a + b) B(a, b)).
    """
    if _variance(chosen) < _variance(other):
        other, chosen = _exchange_failures(other, chosen)
    a, b = chosen
    mean = a / (a + b)

    def expected_loss(x: Array, rest: Array) -> Array:
        density = np.exp(xlogy(a, x) + xlogy(b, rest) - betaln(a, b)) / (a + b)
        return np.asarray((x - mean) * beta_cdf(chosen, x, rest) + density, dtype=np.float64)

    return max(0.0, expectation(other, expected_loss))


def _exchange_failures(candidate: Beta, baseline: Beta) -> tuple[Beta, Beta]:
    """Return the posteriors of the failures with the arms exchanged.

    p1 > p2 exactly when 1 - p2 > 1 - p1.
    """
    return (baseline[1], baseline[0]), (candidate[1], candidate[0])


def _probability_between(beta: Beta, low: Array, high: Array) -> Array:
    """Return P(low < rate < high) from the smaller tails, so that nothing cancels."""
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    upper = low > beta[0] / (beta[0] + beta[1])
    from_below = betainc(*beta, high) - betainc(*beta, low)
    from_above = betaincc(*beta, low) - betaincc(*beta, high)
    return np.asarray(np.where(upper, from_above, from_below))


def _equal_tails(beta: Beta, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    return float(betaincinv(*beta, tail)), float(betainccinv(*beta, tail))


def _highest_density(beta: Beta, level: float) -> tuple[float, float]:
    """Return the interval with equal density at both ends, by bisection over its lower tail."""
    a, b = beta
    if a < 1 and b < 1:
        raise ValueError(f"Beta({a!r}, {b!r}) is highest at both ends and has no interval of highest density")
    # A flat density has no shortest interval: take the central one.
    if a == b == 1:
        return _equal_tails(beta, level)
    if a <= 1:
        return 0.0, float(betaincinv(a, b, level))
    if b <= 1:
        return float(betainccinv(a, b, level)), 1.0
    low, high = 0.0, 1 - level
    # 60 halvings reach the last bit of a double.
    for _ in range(60):
        tail = (low + high) / 2
        left, right = float(betaincinv(a, b, tail)), float(betainccinv(a, b, 1 - level - tail))
        rises = (a - 1) * (math.log(left) - math.log(right)) + (b - 1) * (math.log1p(-left) - math.log1p(-right))
        low, high = (tail, high) if rises < 0 else (low, tail)
    return left, right


def _posteriors(k1: int, n1: int, k2: int, n2: int, prior: Beta) -> tuple[Beta, Beta]:
    return _posterior(k1, n1, prior), _posterior(k2, n2, prior)


def _posterior(successes: int, n: int, prior: Beta) -> Beta:
    check_counts(n, successes=successes)
    if not (min(prior) > 0 and math.isfinite(sum(prior))):
        raise ValueError(f"a beta prior must have two positive parameters, not {prior!r}")
    return prior[0] + successes, prior[1] + n - successes


def _variance(beta: Beta) -> float:
    a, b = beta
    return a * b / ((a + b) ** 2 * (a + b + 1))
