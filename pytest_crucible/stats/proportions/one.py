"""One proportion from independent successes and failures: an interval to show and a bound to decide by.

Proportions of clustered samples are in `clusters`; differences of two arms in `paired_proportions`.
"""

from __future__ import annotations

import math

from scipy.special import betainccinv, betaincinv, ndtri

from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import Side, check_counts, check_share


def wilson_interval(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Wilson score interval for a proportion, without continuity correction. [0, 1] when n is 0.

    Wilson 1927; Newcombe 1998 (SiM 17:857), method 3; R: prop.test(successes, n, correct=FALSE). It is the interval
    to show: its mean coverage is close to the level. A gate uses `clopper_pearson_bound`, which never errs too often.

    >>> interval = wilson_interval(81, 263)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.2553, 0.3662)
    """
    check_counts(n, successes=successes)
    check_share(level, "level")
    if n == 0:
        return Interval(low=0.0, high=1.0, level=level, method="wilson")
    z = float(ndtri(0.5 + level / 2))
    centre = (successes + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(successes * (n - successes) / n + z * z / 4)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(low=low, high=high, level=level, method="wilson")


def clopper_pearson_interval(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Clopper-Pearson interval for a proportion. [0, 1] when n is 0.

    Covers at least `level` at every n and every true rate. Clopper & Pearson 1934; R: binom.test(successes, n).

    >>> interval = clopper_pearson_interval(0, 10)
    >>> interval.low, round(interval.high, 6)
    (0.0, 0.308497)
    """
    check_share(level, "level")
    low = clopper_pearson_bound(successes, n, alpha=(1 - level) / 2, side="lower")
    high = clopper_pearson_bound(successes, n, alpha=(1 - level) / 2, side="upper")
    return Interval(low=low, high=high, level=level, method="clopper-pearson")


def clopper_pearson_bound(successes: int, n: int, *, alpha: float, side: Side) -> float:
    """One-sided Clopper-Pearson bound: the true rate lies beyond it in at most a share `alpha` of experiments.

    R: binom.test(successes, n, alternative=..., conf.level=1-alpha). One-sided Wilson errs in up to 9 % at a nominal
    5 %, the normal approximation in up to 99 %; this one never exceeds alpha.

    >>> round(clopper_pearson_bound(59, 59, alpha=0.05, side="lower"), 4)
    0.9505
    """
    check_counts(n, successes=successes)
    check_share(alpha, "alpha")
    return beta_bound(successes, n, alpha=alpha, side=side)


def beta_bound(successes: float, n: float, *, alpha: float, side: Side) -> float:
    """The Clopper-Pearson bound for real-valued counts, as effective sample sizes have them. Checks nothing."""
    if side == "lower":
        return float(betaincinv(successes, n - successes + 1, alpha)) if successes > 0 else 0.0
    return float(betainccinv(successes + 1, n - successes, alpha)) if successes < n else 1.0
