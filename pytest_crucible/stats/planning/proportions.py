"""Power and sample size for two proportions measured on different samples.

`arcsine` works on Cohen's h = 2 asin sqrt(p1) - 2 asin sqrt(p2), whose variance does not depend on the rates; `pooled`
is the z test with the pooled variance, which a two-sample comparison of rates uses.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from scipy.special import ndtr, ndtri

from pytest_crucible.stats.arrays import (
    Alternative,
    Side,
    check_alternative,
    check_choice,
    check_share,
    check_side,
)
from pytest_crucible.stats.effects.proportions import cohens_h
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_power, rising_root, sample_size, toward
from pytest_crucible.stats.tails import tail_share

Formula = Literal["pooled", "arcsine"]


def power_proportions(
    n: float,
    rate: float,
    baseline_rate: float,
    *,
    n_baseline: float | None = None,
    method: Formula = "pooled",
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
    strict: bool = True,
) -> float:
    """Return the power to distinguish two rates with n samples of each arm.

    R: power.prop.test(n, p1, p2), pwr::pwr.2p.test. `n_baseline` is the size of the second arm where it differs.
    `strict` counts both tails of the two-sided z test, so that power is alpha at no difference; R's default counts only
    the likely tail. The power is 0 when both rates are 0 or both 1: such arms never differ.

    >>> round(power_proportions(500, 0.85, 0.8, strict=False), 7)
    0.5481244
    """
    check_share(alpha, "alpha")
    check_choice(method, get_args(Formula), "method")
    _check_rates(rate, baseline_rate)
    return _power(n, rate, baseline_rate, _ratio(n, n_baseline), method, alpha, alternative, strict)


def samples_for_proportions(
    rate: float,
    baseline_rate: float,
    *,
    ratio: float = 1.0,
    method: Formula = "pooled",
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
    strict: bool = True,
) -> SampleSize:
    """Return the samples of the first arm needed to distinguish two rates.

    The second arm is `ratio` times as large. R: power.prop.test(p1, p2, power=)$n, pwr::pwr.2p.test(h, power=)$n.
    Infinite for equal rates, and for a difference on the other side of a one-sided test.

    >>> samples_for_proportions(0.85, 0.8).ceiling, samples_for_proportions(0.8, 0.7, method="arcsine").ceiling
    (906, 292)
    """
    check_power(power, alpha)
    check_choice(method, get_args(Formula), "method")
    _check_rates(rate, baseline_rate)
    if not (math.isfinite(ratio) and ratio > 0):
        raise ValueError(
            f"ratio, the size of the second arm over the size of the first, must be positive, not {ratio!r}"
        )
    if rate == baseline_rate or toward(rate - baseline_rate, alternative) <= 0:
        return NEVER
    return sample_size(
        lambda n: _power(n, rate, baseline_rate, ratio, method, alpha, alternative, strict),
        power,
        fewest=max(1.0, 1 / ratio),
    )


def detectable_proportion(
    n: float,
    baseline_rate: float,
    *,
    side: Side = "upper",
    n_baseline: float | None = None,
    method: Formula = "pooled",
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> float | None:
    """Return the rate closest to the baseline's whose difference from it n samples per arm detect.

    It lies above (`upper`) or below (`lower`) the baseline rate. None when not even a rate of 1 or 0 is detected. A
    one-sided test detects on its own side only.

    >>> round(detectable_proportion(906, 0.8), 4), round(detectable_proportion(906, 0.8, side="lower"), 4)
    (0.85, 0.7448)
    """
    check_power(power, alpha)
    check_choice(method, get_args(Formula), "method")
    check_side(side)
    check_alternative(alternative)
    _check_rates(baseline_rate, baseline_rate)
    sign, ratio = (1.0 if side == "upper" else -1.0), _ratio(n, n_baseline)
    largest = 1 - baseline_rate if side == "upper" else baseline_rate

    def shortfall(distance: float) -> float:
        rate = min(1.0, max(0.0, baseline_rate + sign * distance))
        return _power(n, rate, baseline_rate, ratio, method, alpha, alternative, True) - power

    if largest == 0 or shortfall(largest) < 0:
        return None
    return baseline_rate + sign * rising_root(shortfall, 0.0, most=largest)


def _power(
    n: float,
    rate: float,
    baseline: float,
    ratio: float,
    method: Formula,
    alpha: float,
    alternative: Alternative,
    strict: bool,
) -> float:
    """Return the tails of a normal statistic around the effect, with its null and its true spread."""
    if method == "arcsine":
        shift = cohens_h(rate, baseline) * math.sqrt(n * ratio / (1 + ratio))
        null_spread, true_spread = 1.0, 1.0
    else:
        pooled = (rate + ratio * baseline) / (1 + ratio)
        # The test uses the pooled variance of the null hypothesis; its statistic spreads with the variance of the true
        # rates.
        null_spread = math.sqrt(pooled * (1 - pooled) * (1 + 1 / ratio))
        true_spread = math.sqrt(rate * (1 - rate) + baseline * (1 - baseline) / ratio)
        shift = math.sqrt(n) * (rate - baseline)
    effect = toward(shift, alternative)
    critical = -float(ndtri(tail_share(alpha, alternative))) * null_spread
    # Rates of 0 and 1 leave no chance: the statistic is a constant.
    if true_spread == 0:
        return float(effect > critical)
    two_tails = alternative == "two-sided" and strict
    return min(
        1.0,
        float(
            ndtr((effect - critical) / true_spread) + (ndtr((-effect - critical) / true_spread) if two_tails else 0.0)
        ),
    )


def _ratio(n: float, n_baseline: float | None) -> float:
    smallest = n if n_baseline is None else min(n, n_baseline)
    if not smallest >= 1:
        raise NotEnoughData(f"{quantity(smallest, 'sample')}: a rate needs at least 1")
    return 1.0 if n_baseline is None else n_baseline / n


def _check_rates(*rates: float) -> None:
    outside = [rate for rate in rates if not 0 <= rate <= 1]
    if outside:
        raise ValueError(f"a rate must lie between 0 and 1, not {outside[0]!r}")
