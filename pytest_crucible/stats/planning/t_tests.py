"""Power, sample size and smallest detectable effect of t tests, exact by the noncentral t.

The upper tail of the noncentral t is an integral of positive terms, so it is never NaN or negative and keeps its digits on both
sides; scipy.special.nctdtr is NaN in its lower tail (scipy issues 25106 and 25470).

An effect is a mean difference in standard deviations: of the values (one sample), of the paired differences (paired),
or of either arm (two samples). Use these for planning only: power "observed" afterwards merely restates p.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr, stdtrit

from pytest_crucible.stats.arrays import Alternative, check_choice, check_share
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.moments import tail_share
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import (
    NEVER,
    SampleSize,
    check_effect,
    check_power,
    rising_root,
    sample_size,
    toward,
)

# Standard deviations of the mixing distribution that are summed: less than 1e-17 lies beyond them.
_SPREADS = 12.0
# exp(-45) is below the last bit of a sum of about 1.
_NEGLIGIBLE = 45.0


def noncentral_t_above(t: float, dof: float, shift: float) -> float:
    """Return P(T > t) for a noncentral t distribution.

    R: pt(t, df, ncp, lower.tail=FALSE). Degrees of freedom need not be whole. T = (Z + shift) / S with a chi S, so the
    tail is the mean of P(Z > t S - shift) over S. It is integrated over u = log S by the trapezoid rule, which
    converges geometrically for such bell-shaped integrands (Trefethen & Weideman 2014).
    """
    spread = 1 / math.sqrt(2 * dof)
    # Six steps to the standard deviation of log S resolve its bell; 0.35 / (|shift| + 8) resolves the step of ndtr.
    step = min(spread / 6, 0.35 / (abs(shift) + 8))
    # The density of log S falls like exp(dof u) to the left and doubly exponentially to the right.
    left = _NEGLIGIBLE / dof + min(0.5, _SPREADS * spread)
    right = min(_SPREADS * spread, 0.5 * math.log(3 + 3 * _NEGLIGIBLE / dof))
    logs = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1) * step
    weights = np.exp(dof * (logs - np.expm1(2 * logs) / 2))
    return min(1.0, float(np.dot(weights, ndtr(shift - t * np.exp(logs))) / weights.sum()))


Design = Literal["one-sample", "paired", "two-sample"]
"""One sample and paired are one computation; two samples share one standard deviation."""
# One value has no standard error.
FEWEST = 2.0


def power_t(
    n: float,
    effect: float,
    *,
    design: Design = "paired",
    n_baseline: float | None = None,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> float:
    """Return the power of a t test with n values (pairs; of each arm).

    R: pwr::pwr.t.test, pwr.t2n.test. `n_baseline` is the size of the second of two independent arms where it differs.
    Two-sided power counts both tails, so that it is alpha at no effect. Raises NotEnoughData below two values.

    >>> round(power_t(64, 0.5, design="two-sample"), 7)
    0.8014596
    """
    check_share(alpha, "alpha")
    check_effect(effect, "the effect")
    return _power(n, toward(effect, alternative), design, _ratio(n, design, n_baseline), alpha, alternative)


def samples_for_t(
    effect: float,
    *,
    design: Design = "paired",
    ratio: float = 1.0,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> SampleSize:
    """Return the number of values (pairs; of the first arm) that a t test needs.

    R: pwr::pwr.t.test(d=, power=)$n. `ratio` is how many times as large the second independent arm is. Infinite for no
    effect, and for one on the other side of a one-sided test.

    >>> samples_for_t(0.5).ceiling, samples_for_t(0.5, design="two-sample").ceiling
    (34, 64)
    """
    check_power(power, alpha)
    check_effect(effect, "the effect")
    check_effect(ratio, "ratio")
    check_choice(design, get_args(Design), "design")
    towards = toward(effect, alternative)
    if towards <= 0:
        return NEVER
    # Both arms need two values.
    fewest = max(FEWEST, FEWEST / ratio) if design == "two-sample" else FEWEST
    return sample_size(lambda n: _power(n, towards, design, ratio, alpha, alternative), power, fewest=fewest)


def detectable_t(
    n: float,
    *,
    design: Design = "paired",
    n_baseline: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> float:
    """Return the smallest effect that a t test with n values (pairs; of each arm) detects.

    R: pwr::pwr.t.test(n, power=)$d. Negative for the alternative `less`. Raises NotEnoughData below two values.

    >>> [round(detectable_t(n), 3) for n in (10, 100, 1000)]
    [0.996, 0.283, 0.089]
    """
    check_power(power, alpha)
    ratio = _ratio(n, design, n_baseline)
    effect = rising_root(lambda effect: _power(n, effect, design, ratio, alpha, alternative) - power, 0.0)
    return -effect if alternative == "less" else effect


def detectable_mean(n: int, deviation: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Return the smallest mean difference that a two-sided t test on n values detects.

    `detectable_t` times the standard deviation. None when the deviation is 0: data without variation do not show what
    they could detect. Raises NotEnoughData below two values.

    >>> round(detectable_mean(50, 1.0), 6)
    0.404183
    """
    if not deviation >= 0:
        raise ValueError(f"a standard deviation must be at least 0, not {deviation!r}")
    effect = detectable_t(n, alpha=alpha, power=power)
    return effect * deviation if deviation else None


def shifted_t_power(dof: float, shift: float, alpha: float, alternative: Alternative) -> float:
    """Return the power of a t test whose statistic is shifted this far towards the alternative."""
    critical = -float(stdtrit(dof, tail_share(alpha, alternative)))
    above = noncentral_t_above(critical, dof, shift)
    return min(1.0, above + noncentral_t_above(critical, dof, -shift)) if alternative == "two-sided" else above


def _power(n: float, effect: float, design: Design, ratio: float, alpha: float, alternative: Alternative) -> float:
    if design == "two-sample":
        # Noncentrality d sqrt(n1 n2 / (n1 + n2)) (Cohen 1988, chapter 2).
        return shifted_t_power(n + ratio * n - 2, effect * math.sqrt(n * ratio / (1 + ratio)), alpha, alternative)
    return shifted_t_power(n - 1, effect * math.sqrt(n), alpha, alternative)


def _ratio(n: float, design: Design, n_baseline: float | None) -> float:
    check_choice(design, get_args(Design), "design")
    if n_baseline is not None and design != "two-sample":
        raise ValueError(f"n_baseline goes with design='two-sample', not {design!r}: leave it out")
    smallest = n if n_baseline is None else min(n, n_baseline)
    if not smallest >= FEWEST:
        raise NotEnoughData(f"{quantity(smallest, 'value')}: the power of a t test needs at least {FEWEST:g}")
    return 1.0 if n_baseline is None else n_baseline / n
