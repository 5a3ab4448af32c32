"""Posterior of the difference of two rates measured on the same samples. For interpretation, never for gates.

The four shares of the paired table (both right, gained, lost, both wrong) have a Dirichlet(1/2, 1/2, 1/2, 1/2) prior.
Then the discordance s and the share theta of gains among the discordant are independent betas, the difference is s (2
theta - 1), and every quantity is a formula or one integral over s: nothing is drawn, and no seed is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincc, betaln

from pytest_crucible.stats.arrays import Array, check_counts, check_share
from pytest_crucible.stats.bayes.quadrature import Beta, expectation
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, with_interval
from pytest_crucible.stats.planning.roots import rising_root


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencePosterior:
    """The posterior of a difference, candidate minus baseline."""

    mean: float
    interval: Interval
    """Equal-tailed."""
    probability_positive: float
    probability_equivalent: float | None
    """Probability that the difference is within the margin on either side; None without a margin."""
    losses: tuple[float, float]
    """Expected loss of choosing the candidate, E max(-difference, 0), and of choosing the baseline."""

    def __str__(self) -> str:
        equivalent = self.probability_equivalent
        equivalence = "" if equivalent is None else f", equivalent with {number(equivalent)}"
        mean = with_interval(self.mean, self.interval, sign=True)
        return f"{mean}, positive with {number(self.probability_positive)}{equivalence}"


def paired_posterior(
    gained: int,
    lost: int,
    n: int,
    *,
    margin: float | None = None,
    prior: float = 0.5,
    level: float = 0.95,
) -> DifferencePosterior:
    """Return the posterior of rate(candidate) - rate(baseline) from n pairs.

    Of the pairs, `gained` have only the candidate right and `lost` only the baseline. `prior` is the parameter of each
    of the four shares. P(difference > 0) is P(theta > 1/2), an incomplete beta function that does not depend on the
    concordant pairs.

    >>> posterior = paired_posterior(12, 2, 50, margin=0.05)
    >>> round(posterior.mean, 4), round(posterior.probability_positive, 4)
    (0.1923, 0.9974)
    >>> round(posterior.interval.low, 3), round(posterior.interval.high, 3)
    (0.06, 0.331)
    """
    check_counts(n, gained=gained, lost=lost)
    check_share(level, "level")
    if not (prior > 0 and math.isfinite(prior)):
        raise ValueError(f"the parameter of the prior must be positive, not {prior!r}")
    if margin is not None and not 0 <= margin <= 1:
        raise ValueError(f"a margin of rates must lie between 0 and 1, not {margin!r}")
    gains, discordant = (gained + prior, lost + prior), (gained + lost + 2 * prior, n - gained - lost + 2 * prior)
    share = discordant[0] / sum(discordant)
    return DifferencePosterior(
        mean=share * (2 * gains[0] / sum(gains) - 1),
        interval=_interval(gains, discordant, level),
        probability_positive=float(betaincc(*gains, 0.5)),
        probability_equivalent=None if margin is None else _within(gains, discordant, margin),
        losses=(share * _shortfall(gains), share * _shortfall((gains[1], gains[0]))),
    )


def _interval(gains: Beta, discordant: Beta, level: float) -> Interval:
    tail = (1 - level) / 2
    # The upper end is the lower end of the swapped arms: swapping negates the interval to the last bit.
    low, high = _low_end(gains, discordant, tail), -_low_end((gains[1], gains[0]), discordant, tail)
    return Interval(low=low, high=high, level=level, method="dirichlet posterior, equal-tailed")


def _low_end(gains: Beta, discordant: Beta, tail: float) -> float:
    return rising_root(lambda above: _cdf(gains, discordant, above - 1) - tail, 0.0, most=2.0) - 1


def _cdf(gains: Beta, discordant: Beta, x: float) -> float:
    """Return P(difference <= x): theta <= (1 + x / s) / 2, which is certain or impossible where s <= |x|."""
    return expectation(discordant, lambda share, _: np.asarray(betainc(*gains, _clip_theta(share, x))), kinks=(abs(x),))


def _within(gains: Beta, discordant: Beta, margin: float) -> float:
    def inside(share: Array, _: Array) -> Array:
        return np.asarray(betainc(*gains, _clip_theta(share, margin)) - betainc(*gains, _clip_theta(share, -margin)))

    return expectation(discordant, inside, kinks=(margin,))


def _clip_theta(share: Array, x: float) -> Array:
    return np.clip((1 + x / share) / 2, 0.0, 1.0)


def _shortfall(gains: Beta) -> float:
    """Return E max(1 - 2 theta, 0), in closed form."""
    a, b = gains
    density = math.exp(-(a + b) * math.log(2) - float(betaln(a, b))) / (a + b)
    return max(0.0, 2 * ((0.5 - a / (a + b)) * float(betainc(a, b, 0.5)) + density))
