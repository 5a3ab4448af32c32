"""Bootstrap intervals from the law of the resampled statistic: percentile, basic and BCa.

DiCiccio & Efron (1996, Statistical Science 11:189); Davison & Hinkley (1997, chapter 5).
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import check_share
from pytest_crucible.stats.resampling.law import Law


def percentile_interval(law: Law, *, level: float = 0.95) -> Interval:
    """The middle `level` of the law; R: boot.ci(type = "perc"), with quantiles of type 7.

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.law import law_of_draws
    >>> round(percentile_interval(law_of_draws(np.arange(101.0)), level=0.9).low, 6)
    5.0
    """
    check_share(level, "level")
    low, high = law.quantile((1 - level) / 2), law.quantile((1 + level) / 2)
    return Interval(low=low, high=high, level=level, method="bootstrap percentile")


def basic_interval(law: Law, estimate: float, *, level: float = 0.95) -> Interval:
    """The percentile interval mirrored at the estimate; R: boot.ci(type = "basic").

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.law import law_of_draws
    >>> round(basic_interval(law_of_draws(np.arange(101.0)), 40.0, level=0.9).low, 6)
    -15.0
    """
    mirrored = percentile_interval(law, level=level)
    low, high = 2 * estimate - mirrored.high, 2 * estimate - mirrored.low
    return Interval(low=low, high=high, level=level, method="bootstrap basic")


def bias_correction(law: Law, estimate: float) -> float:
    """z0 of BCa: the normal quantile of the share of resamples below the estimate, equal ones counted half.

    Infinite when all resamples lie on one side. Efron (1987, JASA 82:171); halves as in scipy.stats.bootstrap.

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.law import law_of_draws
    >>> bias_correction(law_of_draws(np.array([1.0, 2.0, 2.0, 3.0])), 2.0)
    0.0
    """
    return float(ndtri(law.share_below(estimate)))


def bca_shares(correction: float, acceleration: float, *, level: float = 0.95) -> tuple[float, float] | None:
    """Which two quantiles of the law BCa takes: Phi(z0 + (z0 + z) / (1 - a (z0 + z))) at both tails.

    None where they are not defined: an infinite z0, or an acceleration so large that the denominator reaches 0.

    >>> low, high = bca_shares(0.0, 0.0, level=0.9)
    >>> round(low, 6), round(high, 6)
    (0.05, 0.95)
    """
    check_share(level, "level")
    if not math.isfinite(correction):
        return None
    z = float(ndtri((1 + level) / 2))
    low, high = _moved(correction, acceleration, -z), _moved(correction, acceleration, z)
    if low is None or high is None or not 0 < low < high < 1:
        return None
    return low, high


def bca_interval(law: Law, estimate: float, acceleration: float, *, level: float = 0.95) -> Interval | None:
    """Efron's bias-corrected and accelerated interval; R: boot.ci(type = "bca"). None where BCa is not defined.

    >>> import numpy as np
    >>> from pytest_crucible.stats.resampling.law import law_of_draws
    >>> interval = bca_interval(law_of_draws(np.arange(101.0)), 50.0, 0.0, level=0.9)
    >>> round(interval.low, 6), round(interval.high, 6)
    (5.0, 95.0)
    """
    shares = bca_shares(bias_correction(law, estimate), acceleration, level=level)
    if shares is None:
        return None
    return Interval(low=law.quantile(shares[0]), high=law.quantile(shares[1]), level=level, method="bootstrap bca")


def _moved(correction: float, acceleration: float, z: float) -> float | None:
    shrink = 1 - acceleration * (correction + z)
    return float(ndtr(correction + (correction + z) / shrink)) if shrink > 0 else None
