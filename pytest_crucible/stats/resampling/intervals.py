"""Bootstrap intervals from the distribution of the resampled statistic: percentile, basic and BCa.

DiCiccio & Efron (1996, Statistical Science 11:189); Davison & Hinkley (1997, chapter 5).
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from pytest_crucible.stats.arrays import check_share
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.resampling.distribution import Distribution


def percentile_interval(distribution: Distribution, *, level: float = 0.95) -> Interval:
    """Return the middle `level` of the distribution.

    R: boot.ci(type = "perc"), with quantiles of type 7.

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.distribution import tabulate_draws
    >>> round(percentile_interval(tabulate_draws(np.arange(101.0)), level=0.9).low, 6)
    5.0
    """
    check_share(level, "level")
    low, high = distribution.quantile((1 - level) / 2), distribution.quantile((1 + level) / 2)
    return Interval(low=low, high=high, level=level, method="bootstrap percentile")


def basic_interval(distribution: Distribution, estimate: float, *, level: float = 0.95) -> Interval:
    """Return the percentile interval mirrored at the estimate.

    R: boot.ci(type = "basic").

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.distribution import tabulate_draws
    >>> round(basic_interval(tabulate_draws(np.arange(101.0)), 40.0, level=0.9).low, 6)
    -15.0
    """
    mirrored = percentile_interval(distribution, level=level)
    low, high = 2 * estimate - mirrored.high, 2 * estimate - mirrored.low
    return Interval(low=low, high=high, level=level, method="bootstrap basic")


def bias_correction(distribution: Distribution, estimate: float) -> float:
    """Return BCa's z0: the normal quantile of the share of resamples below the estimate.

    Equal resamples count half, as in scipy.stats.bootstrap. Infinite when all resamples lie on one side. Efron (1987,
    JASA 82:171).

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.distribution import tabulate_draws
    >>> bias_correction(tabulate_draws(np.array([1.0, 2.0, 2.0, 3.0])), 2.0)
    0.0
    """
    return float(ndtri(distribution.share_below(estimate)))


def bca_shares(correction: float, acceleration: float, *, level: float = 0.95) -> tuple[float, float] | None:
    """Return the shares of the two quantiles that BCa takes, or None.

    Phi(z0 + (z0 + z) / (1 - a (z0 + z))) at both tails. None for an infinite z0, and for an acceleration so large that
    the denominator reaches 0.

    >>> low, high = bca_shares(0.0, 0.0, level=0.9)
    >>> round(low, 6), round(high, 6)
    (0.05, 0.95)
    """
    check_share(level, "level")
    if not math.isfinite(correction):
        return None
    z = float(ndtri((1 + level) / 2))
    low, high = _adjusted_share(correction, acceleration, -z), _adjusted_share(correction, acceleration, z)
    if low is None or high is None or not 0 < low < high < 1:
        return None
    return low, high


def bca_interval(
    distribution: Distribution, estimate: float, acceleration: float, *, level: float = 0.95
) -> Interval | None:
    """Return Efron's bias-corrected and accelerated interval, or None if it is not defined.

    R: boot.ci(type = "bca").

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.distribution import tabulate_draws
    >>> interval = bca_interval(tabulate_draws(np.arange(101.0)), 50.0, 0.0, level=0.9)
    >>> round(interval.low, 6), round(interval.high, 6)
    (5.0, 95.0)
    """
    shares = bca_shares(bias_correction(distribution, estimate), acceleration, level=level)
    if shares is None:
        return None
    return Interval(
        low=distribution.quantile(shares[0]), high=distribution.quantile(shares[1]), level=level, method="bootstrap bca"
    )


def _adjusted_share(correction: float, acceleration: float, z: float) -> float | None:
    shrink = 1 - acceleration * (correction + z)
    return float(ndtr(correction + (correction + z) / shrink)) if shrink > 0 else None
