"""Confidence sequences for a proportion by the beta-binomial mixture: sharper than bounded methods for 0/1 values.

The mixture over alternatives to a proportion p is a Beta(k p, k (1 - p)) prior. Howard et al. 2021 (Annals of
Statistics 49:1055), Proposition 7; Robbins 1970 (Annals of Mathematical Statistics 41:1397).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlog1py, xlogy

from pytest_crucible.stats.arrays import Array, check_counts, check_share
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.sequential.confidence_sequence import ConfidenceSequence, running_mean, unit_values
from pytest_crucible.stats.sequential.mixtures import mixing_variance


def bernoulli_sequence(
    values: npt.ArrayLike, *, planned: float, alpha: float = 0.05, intersect: bool = True
) -> ConfidenceSequence:
    """Return the two-sided sequence for a proportion, tightest after `planned` values.

    Values count in their order. Raises ValueError for values other than 0 and 1.

    >>> print(bernoulli_sequence([1, 1, 0, 1, 1, 1, 1, 0, 1, 1] * 5, planned=50))
    beta-binomial mixture: 0.800 [0.605, 0.934] after 50 values, holds at every n with 95 %
    """
    unit = unit_values(values, (0.0, 1.0))
    graded = int(((unit != 0) & (unit != 1)).sum())
    if graded:
        raise ValueError(f"{graded} of {unit.size} values are neither 0 nor 1")
    lower, upper = _ends(np.cumsum(unit), np.arange(1.0, unit.size + 1), planned, alpha, alpha)
    if intersect:
        lower, upper = np.maximum.accumulate(lower), np.minimum.accumulate(upper)
    return ConfidenceSequence(
        lower=lower, upper=upper, estimate=running_mean(unit), alpha=alpha, method="beta-binomial mixture"
    )


def bernoulli_interval(
    successes: int, n: int, *, planned: float, alpha: float = 0.05, tuned_alpha: float | None = None
) -> Interval:
    """Return the interval of `bernoulli_sequence` after n values, from the counts alone.

    It is (0, 1) without values. `tuned_alpha` is the alpha for which `planned` is best, by default `alpha`. Python:
    confseq.boundaries.bernoulli_confidence_interval (whose `alpha_opt` is 0.05 by default).

    >>> interval = bernoulli_interval(35, 50, planned=50)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.488104, 0.870443)
    """
    check_counts(n, successes=successes)
    tuned = alpha if tuned_alpha is None else tuned_alpha
    lower, upper = _ends(np.array([float(successes)]), np.array([float(n)]), planned, alpha, tuned)
    return Interval(low=float(lower[0]), high=float(upper[0]), level=1 - alpha, method="beta-binomial mixture")


def _ends(successes: Array, n: Array, planned: float, alpha: float, tuned: float) -> tuple[Array, Array]:
    check_share(alpha, "alpha")
    check_share(tuned, "the tuned alpha")
    if not planned > 0:
        raise ValueError(f"the planned number of values must be positive, not {planned!r}")
    # The prior needs mixing_variance - 1 pseudo-observations to be tightest at `planned`, and more than none in any
    # case.
    pseudo, threshold = max(mixing_variance(planned, tuned) - 1, 1e-3), -np.log(alpha)
    return _low(successes, n, pseudo, threshold), 1 - _low(n - successes, n, pseudo, threshold)


def _low(successes: Array, n: Array, pseudo: float, threshold: float) -> Array:
    """Return the smallest proportion that is not refuted, by bisection below the rate; 0 without a success."""
    low, high = np.zeros(n.size), successes / np.maximum(n, 1)
    # 55 halvings of an interval of at most 1 reach the last bit of a double.
    for _ in range(55):
        middle = (low + high) / 2
        refuted = _log_mixture(successes, n, middle, pseudo) > threshold
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return np.where(successes > 0, high, 0.0)


def _log_mixture(successes: Array, n: Array, p: Array, pseudo: float) -> Array:
    # A proportion of exactly 0 or 1 would give a beta prior without a parameter.
    p = np.clip(p, 1e-300, 1 - 1e-16)
    failures, prior_hits, prior_misses = n - successes, pseudo * p, pseudo * (1 - p)
    mixed = (
        gammaln(prior_hits + successes) - gammaln(prior_hits) + gammaln(prior_misses + failures) - gammaln(prior_misses)
    )
    null_log = gammaln(pseudo + n) - gammaln(pseudo) + xlogy(successes, p) + xlog1py(failures, -p)
    return np.asarray(mixed - null_log)
