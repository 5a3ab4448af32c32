"""Sample size for two proportions measured on different samples."""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_power, sample_size


def samples_for_proportions(
    rate: float, baseline_rate: float, *, alpha: float = 0.05, power: float = 0.8
) -> SampleSize:
    """Return the samples of each arm that a two-sided z test with the pooled variance needs to distinguish two rates.

    Both tails count. R: power.prop.test(p1, p2, power=, strict=TRUE)$n. Infinite for equal rates.

    >>> samples_for_proportions(0.85, 0.8).ceiling
    906
    """
    check_power(power, alpha)
    outside = [share for share in (rate, baseline_rate) if not 0 <= share <= 1]
    if outside:
        raise ValueError(f"a rate must lie between 0 and 1, not {outside[0]!r}")
    if rate == baseline_rate:
        return NEVER
    return sample_size(lambda n: _power(n, rate, baseline_rate, alpha), power, fewest=1.0)


def _power(n: float, rate: float, baseline: float, alpha: float) -> float:
    # The test uses the pooled variance of the null hypothesis; its statistic spreads with the variance of the true rates.
    pooled = (rate + baseline) / 2
    null_spread, true_spread = (
        math.sqrt(2 * pooled * (1 - pooled)),
        math.sqrt(rate * (1 - rate) + baseline * (1 - baseline)),
    )
    effect, critical = math.sqrt(n) * abs(rate - baseline), -float(ndtri(alpha / 2)) * null_spread
    # Rates of 0 and 1 leave no chance: the statistic is a constant.
    if true_spread == 0:
        return float(effect > critical)
    return min(1.0, float(ndtr((effect - critical) / true_spread) + ndtr((-effect - critical) / true_spread)))
