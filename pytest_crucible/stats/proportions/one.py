"""One proportion from independent successes and failures: intervals and one-sided bounds.

Wilson's interval is the one to show, the Clopper-Pearson bound the one that decides. The others are for comparison with
reports. Clustered proportions are in `clustered`, differences of two arms in `two` and `paired`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Labels,
    Side,
    check_counts,
    check_share,
    check_tail,
)
from pytest_crucible.stats.distributions import beta_quantile, beta_upper_quantile, normal_quantile, t_quantile
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.means.units import UnitRows, rows_of_clusters


def wilson_interval(successes: int, n: int, *, level: float = 0.95, correction: bool = False) -> Interval:
    """Return the Wilson score interval for a proportion. [0, 1] when n is 0.

    Wilson 1927; Newcombe 1998 (SiM 17:857), method 3, with continuity `correction` method 4; R: prop.test(successes, n,
    correct=FALSE). (R leaves the correction out when exactly half of n are successes; Newcombe does not.) It is the
    interval to show: its mean coverage is close to the level. A gate uses `clopper_pearson_bound`, which never errs
    too often.

    >>> interval = wilson_interval(81, 263)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.2553, 0.3662)
    """
    check_counts(n, successes=successes)
    check_share(level, "level")
    z = normal_quantile(0.5 + level / 2)
    method = "wilson, continuity-corrected" if correction else "wilson"
    if n == 0:
        return Interval(low=0.0, high=1.0, level=level, method=method)
    # Exact at the edges, where rounding would leave 1e-17 instead of 0.
    low = 0.0 if successes == 0 else _wilson_end(successes - correction / 2, n, -z)
    high = 1.0 if successes == n else _wilson_end(successes + correction / 2, n, z)
    return Interval(low=low, high=high, level=level, method=method)


def effective_wilson_interval(share: float, n: float, *, level: float = 0.95) -> Interval:
    """Return the Wilson interval of a share of weighted units, which are worth `n` units of equal weights."""
    z = normal_quantile(0.5 + level / 2)
    low, high = (_wilson_end(share * n, n, end) for end in (-z, z))
    # Exact at the edges, where rounding would leave 1e-17 instead of 0.
    return Interval(
        low=0.0 if share <= 0 else low,
        high=1.0 if share >= 1 else high,
        level=level,
        method="wilson, effective sample size",
    )


def clopper_pearson_interval(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the Clopper-Pearson interval for a proportion. [0, 1] when n is 0.

    Covers at least `level` at every n and every true rate. Clopper & Pearson 1934; R: binom.test(successes, n).
    """
    check_share(level, "level")
    low = clopper_pearson_bound(successes, n, alpha=(1 - level) / 2, side="lower")
    high = clopper_pearson_bound(successes, n, alpha=(1 - level) / 2, side="upper")
    return Interval(low=low, high=high, level=level, method="clopper-pearson")


def clopper_pearson_bound(successes: int, n: int, *, alpha: float, side: Side) -> float:
    """Return the one-sided Clopper-Pearson bound: it errs in at most a share `alpha` of experiments.

    R: binom.test(successes, n, alternative=..., conf.level=1-alpha). One-sided Wilson errs in up to 9 % at a nominal
    5 %, the normal approximation in up to 99 %; this one never exceeds alpha.

    >>> round(clopper_pearson_bound(59, 59, alpha=0.05, side="lower"), 4)
    0.9505
    """
    check_counts(n, successes=successes)
    check_tail(alpha, side)
    return beta_bound(successes, n, alpha=alpha, side=side)


def beta_bound(successes: float, n: float, *, alpha: float, side: Side) -> float:
    """Return the Clopper-Pearson bound for fractional counts, as with effective sample sizes. Checks nothing."""
    if side == "lower":
        # Without failures Beta(n, 1) has a closed form.
        if successes == n > 0:
            return float(alpha ** (1 / n))
        return beta_quantile(alpha, successes, n - successes + 1) if successes > 0 else 0.0
    if successes == 0 < n:
        return -math.expm1(math.log(alpha) / n)
    return beta_upper_quantile(alpha, successes + 1, n - successes) if successes < n else 1.0


def _wilson_end(successes: float, n: float, z: float) -> float:
    """Return the low end for negative z, the high end for positive z."""
    # Wilson 1927: both roots of (p - rate)^2 = z^2 rate (1 - rate) / n.
    spread = math.sqrt(successes * (n - successes) / n + z * z / 4)
    return (successes + z * z / 2 + z * spread) / (n + z * z)


def korn_graubard_bound(values: npt.ArrayLike, clusters: Labels, *, alpha: float, side: Side) -> float:
    """Return the one-sided Korn-Graubard bound; its design effect counts one more cluster of zeros and one of ones.

    Near 0 and 1 a handful of clusters determines the design effect, and the plain bound errs in up to 10 % at a nominal
    5 % (20 clusters of 5, rate .95); with the two pseudo-clusters it stays within alpha.
    """
    check_tail(alpha, side)
    array, codes, _ = check_clustered(values, clusters)
    graded = int(np.sum((array != 0) & (array != 1)))
    if graded:
        raise ValueError(f"{graded} of {array.size} values are neither 0 nor 1")
    return korn_graubard_bound_of(rows_of_clusters(array, codes), alpha=alpha, side=side)


def korn_graubard_bound_of(rows: UnitRows, *, alpha: float, side: Side) -> float:
    """Return the bound of groups that are checked already."""
    n, count = int(rows.n), int(rows.count)
    size = effective_size(n, count, _design_effect(rows), alpha)
    return beta_bound(float(np.sum(rows.times * rows.totals)) / n * size, size, alpha=alpha, side=side)


def _design_effect(rows: UnitRows) -> float:
    """Return the variance of the rate between clusters over the binomial one, with one more cluster of zeros and one of ones."""
    sizes, totals, times = rows.sizes, rows.totals, rows.times
    weight = float(np.sum(times * sizes * sizes)) / rows.n
    n, clusters = rows.n + 2 * weight, rows.count + 2
    rate = (float(np.sum(times * totals)) + weight) / n
    residuals = totals - sizes * rate
    squares = float(np.sum(times * residuals * residuals)) + weight**2 * (rate**2 + (1 - rate) ** 2)
    # Ultimate-cluster variance, linearised, with the factor G / (G - 1), as in R's survey package.
    variance = clusters / (clusters - 1) * squares / (n * n)
    return variance * n / (rate * (1 - rate)) if 0 < rate < 1 else 0.0


def effective_size(n: int, clusters: int, effect: float, tail: float) -> float:
    """Return the number of independent values with this precision; the t ratio pays for estimating the effect."""
    # Korn & Graubard (1998): the squared ratio of t quantiles allows for few clusters.
    ratio = t_quantile(n - 1, tail) / t_quantile(clusters - 1, tail)
    return n / max(effect / (ratio * ratio), 1.0)
