"""Noncentral t distribution, inverted: the noncentralities that are compatible with an observed t statistic.

T = (Z + ncp) / S with S = chi_dof / sqrt(dof), so that P(T <= t) is the mean of Phi(t S - ncp): one smooth integral,
solved to 1e-14. The limits of scipy's `nctdtrinc` are good to 1e-7 at t = 2 and to 1e-5 at t = 100.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Array,
    check_share,
    difference,
    finite,
    is_constant,
    paired_arrays,
)
from pytest_crucible.stats.distributions import normal_quantile
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.results import Effect

# Nodes of each of three panels: before, across and behind the place where Phi rises.
NODES = 48
# Standard deviations of S, and of Z, that the integral covers: beyond lies less than 1e-30.
REACH = 12.0
# A limit against endless loops.
MOST_STEPS = 60
# Relative change at which the search ends: near the last bit of a double.
CLOSE = 1e-14


def noncentral_t_limits(t: float, dof: float, *, level: float = 0.95) -> tuple[float, float]:
    """Return the noncentralities for which t lies at the upper, and at the lower, (1 - level) / 2 tail.

    Steiger & Fouladi (1997). They bracket t * J, and contain 0 exactly when the central t test does not reject at
    1 - level. R: uniroot(function(d) pt(t, dof, d) - 0.975, ...).
    """
    _check_dof(dof)
    check_share(level, "level")
    if not math.isfinite(t):
        raise ValueError(f"a t statistic must be finite, not {t!r}")
    tail = (1 - level) / 2
    return -_upper_limit(-t, dof, tail), _upper_limit(t, dof, tail)


def _check_dof(dof: float) -> None:
    if not dof >= 1:
        raise ValueError(f"degrees of freedom must be at least 1, not {dof!r}")


def _upper_limit(t: float, dof: float, tail: float) -> float:
    """Return the noncentrality with P(T <= t) = tail.

    Newton's steps on the normal scale, where the function is nearly a line.
    """
    target = normal_quantile(tail)
    ncp = t - target * math.sqrt(1 + t * t / (2 * dof))
    low, high = -math.inf, math.inf
    for _ in range(MOST_STEPS):
        share, slope = _cdf(t, dof, ncp)
        if share > tail:
            low = ncp
        else:
            high = ncp
        step = _newton_step(share, slope, target)
        following = ncp - step
        # Also where the share is so small that its normal quantile is infinite.
        if not low < following < high:
            following = _inside(low, high)
        if abs(following - ncp) <= CLOSE * max(1.0, abs(ncp)):
            return following
        ncp = following
    return ncp


def _newton_step(share: float, slope: float, target: float) -> float:
    if not 0 < share < 1 or slope == 0:
        return math.nan
    z = normal_quantile(share)
    return (z - target) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / slope


def _inside(low: float, high: float) -> float:
    if math.isinf(low):
        return high - max(1.0, abs(high))
    return low + max(1.0, abs(low)) if math.isinf(high) else (low + high) / 2


def _cdf(t: float, dof: float, ncp: float) -> tuple[float, float]:
    """Return P(T <= t), and its derivative by the noncentrality."""
    # Most comparisons have effect sizes that need no scipy.special, which takes 0.1 s to import.
    from scipy.special import ndtr

    positions, weights = _panels(t, dof, ncp)
    # The density of S but for its constant, which cancels: no gamma functions, no lost digits.
    log_density = (dof - 1) * np.log(positions) - dof * (positions * positions - 1) / 2
    mass = weights * np.exp(log_density - log_density.max())
    distance, total = t * positions - ncp, float(mass.sum())
    slope = -float(mass @ np.exp(-distance * distance / 2)) / math.sqrt(2 * math.pi)
    return float(mass @ ndtr(distance)) / total, slope / total


def _panels(t: float, dof: float, ncp: float) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights on the range of S, cut where t S = ncp -+ REACH."""
    width = REACH / math.sqrt(2 * dof)
    edges = [max(0.0, 1 - width), 1 + width]
    if t:
        edges += [edge for sign in (-1, 1) if edges[0] < (edge := (ncp + sign * REACH) / t) < edges[1]]
    cuts = np.sort(np.array(edges))
    half = np.diff(cuts)[:, None] / 2
    nodes, weights = _legendre()
    positions = cuts[:-1, None] + half * (nodes + 1)
    return positions.ravel(), (half * weights).ravel()


@cache
def _legendre() -> tuple[Array, Array]:
    # Computed at first use: most that imports this module has no effect size, and it takes as long as ten imports.
    return np.polynomial.legendre.leggauss(NODES)


NO_SPREAD = "nothing varies: a difference in units of a standard deviation of 0 is not defined"


def hedges_correction(dof: float) -> float:
    """Return Hedges's exact J, the factor that removes the bias of d; 0 at dof 1.

    J = Gamma(dof/2) / (sqrt(dof/2) Gamma((dof-1)/2)). Hedges (1981), eq. (6e). Raises ValueError below one degree of
    freedom.
    """
    _check_dof(dof)
    from scipy.special import poch

    # poch is a ratio of gamma functions: each alone would overflow beyond dof 340.
    return 0.0 if dof == 1 else float(poch((dof - 1) / 2, 0.5)) / math.sqrt(dof / 2)


def pooled_deviation(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> float:
    """Return the pooled standard deviation of two arms; 0 when neither arm varies.

    sqrt(((n1 - 1) s1^2 + (n2 - 1) s2^2) / (n1 + n2 - 2)).
    """
    candidate_array, baseline_array = _arms(candidate, baseline)
    candidate_deviation, baseline_deviation = _deviation(candidate_array), _deviation(baseline_array)
    weights = (candidate_array.size - 1, baseline_array.size - 1)
    root_weights = math.sqrt(weights[0] / sum(weights)), math.sqrt(weights[1] / sum(weights))
    return math.hypot(candidate_deviation * root_weights[0], baseline_deviation * root_weights[1])


def cohens_d(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return Cohen's d of two independent arms, the mean difference over the pooled deviation.

    Candidate minus baseline, with its noncentral t interval. R: effectsize::cohens_d(x, y). Steiger & Fouladi (1997):
    exact for normal scores of equal variance. Raises NotEnoughData for an empty arm or fewer than three values
    together.

    >>> effect = cohens_d([1, 2, 3, 4], [2, 4, 4, 6])
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (-1.019, -2.4799, 0.5123)
    """
    check_share(level, "level")
    candidate_array, baseline_array = _arms(candidate, baseline)
    pooled = pooled_deviation(candidate_array, baseline_array)
    if pooled == 0:
        return Effect(name="cohen d", value=None, note=NO_SPREAD)
    value = float(candidate_array.mean() - baseline_array.mean()) / pooled
    scale = math.sqrt(1 / candidate_array.size + 1 / baseline_array.size)
    interval = _interval(value, scale, candidate_array.size + baseline_array.size - 2, level)
    return Effect(name="cohen d", value=value, interval=interval)


def hedges_g(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return Hedges's g = J d, without the bias of d at small n; the interval is that of d times J.

    R: effectsize::hedges_g(x, y). Raises NotEnoughData as `cohens_d` does.

    >>> round(hedges_g([1, 2, 3, 4], [2, 4, 4, 6]).value, 4)
    -0.8852
    """
    effect = cohens_d(candidate, baseline, level=level)
    return _correct_bias(effect, "hedges g", np.size(candidate) + np.size(baseline) - 2)


def glass_delta(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return Glass's delta, the mean difference over the baseline's deviation, for arms with unequal spreads.

    R: effectsize::glass_delta(x, y). The interval is a noncentral t one with n_baseline - 1 degrees of freedom, its
    statistic delta / sqrt(s_candidate^2 / (n_candidate s_baseline^2) + 1 / n_baseline). Raises NotEnoughData below two
    values of the baseline or one of the candidate.

    >>> round(glass_delta([1, 2, 3, 4], [2, 4, 4, 6]).value, 4)
    -0.9186
    """
    check_share(level, "level")
    candidate_array, baseline_array = (
        finite(candidate, name="values of the candidate"),
        finite(baseline, name="values of the baseline"),
    )
    if not candidate_array.size or baseline_array.size < 2:
        raise NotEnoughData(
            f"{candidate_array.size} and {baseline_array.size} values: "
            "expected at least 1 of the candidate and 2 of the baseline"
        )
    unit = _deviation(baseline_array)
    if unit == 0:
        return Effect(name="glass delta", value=None, note=NO_SPREAD)
    value = float(candidate_array.mean() - baseline_array.mean()) / unit
    scale = math.sqrt((_deviation(candidate_array) / unit) ** 2 / candidate_array.size + 1 / baseline_array.size)
    return Effect(name="glass delta", value=value, interval=_interval(value, scale, baseline_array.size - 1, level))


def cohens_dz(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return dz of pairs: mean difference over the deviation of the differences, with its noncentral t interval.

    R: effectsize::cohens_d(x, y, paired = TRUE). The effect size of power calculations for paired tests; it grows with
    the correlation of the arms. Raises ValueError for unequal lengths and NotEnoughData below two pairs.

    >>> effect = cohens_dz([0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.6, 0.5])
    >>> round(effect.value, 4), round(effect.interval.low, 4)
    (1.4142, -0.0799)
    """
    check_share(level, "level")
    differences = _differences(candidate, baseline)
    unit = _deviation(differences)
    if unit == 0:
        return Effect(name="cohen dz", value=None, note=NO_SPREAD)
    value = float(differences.mean()) / unit
    interval = _interval(value, 1 / math.sqrt(differences.size), differences.size - 1, level)
    return Effect(name="cohen dz", value=value, interval=interval)


def cohens_dav(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Return dav of pairs: mean difference over the root mean square of both arms' deviations.

    It is on the scale of d for any correlation of the arms. Cumming (2012). The interval is that of Algina &
    Keselman (2003, EPM 63:537): the noncentral t limits of the paired t, rescaled; it excludes 0 exactly when the
    paired t test rejects. It treats the ratio of the two deviations as known, and is approximate therefore. Raises as
    `cohens_dz`.

    >>> effect = cohens_dav([0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.6, 0.5])
    >>> round(effect.value, 4), round(effect.interval.low, 4)
    (2.0, -0.113)
    """
    check_share(level, "level")
    differences = _differences(candidate, baseline)
    candidate_array, baseline_array = paired_arrays(candidate, baseline, names=("candidate", "baseline"))
    unit = math.hypot(_deviation(candidate_array), _deviation(baseline_array)) / math.sqrt(2)
    if unit == 0:
        return Effect(name="cohen dav", value=None, note=NO_SPREAD)
    value, spread = float(differences.mean()) / unit, _deviation(differences)
    if spread == 0:
        return Effect(
            name="cohen dav", value=value, note="all differences are equal: an interval needs differences that vary"
        )
    scale = spread / unit / math.sqrt(differences.size)
    return Effect(name="cohen dav", value=value, interval=_interval(value, scale, differences.size - 1, level))


def _arms(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> tuple[Array, Array]:
    candidate_array, baseline_array = (
        finite(candidate, name="values of the candidate"),
        finite(baseline, name="values of the baseline"),
    )
    if not candidate_array.size or not baseline_array.size or candidate_array.size + baseline_array.size < 3:
        raise NotEnoughData(
            f"{candidate_array.size} and {baseline_array.size} values: a pooled deviation needs at least 3 in two arms"
        )
    return candidate_array, baseline_array


def _differences(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Array:
    differences = difference(candidate, baseline)
    if differences.size < 2:
        raise NotEnoughData(f"{quantity(differences.size, 'pair')}: a deviation needs at least 2")
    return differences


def _deviation(array: Array) -> float:
    """Return the sample standard deviation; 0 for one value, and for values that differ by rounding only."""
    if array.size < 2 or is_constant(array):
        return 0.0
    # Squares of very small scores would underflow to 0.
    size = float(np.abs(array).max())
    return size * float((array / size).std(ddof=1))


def _interval(value: float, scale: float, dof: int, level: float) -> Interval:
    """Return the effect's interval: its t statistic's compatible noncentralities, scaled back."""
    low, high = noncentral_t_limits(value / scale, dof, level=level)
    return Interval(low=low * scale, high=high * scale, level=level, method="noncentral t")


def _correct_bias(effect: Effect, name: str, dof: int) -> Effect:
    if effect.value is None or effect.interval is None:
        return replace(effect, name=name)
    if dof < 2:
        return Effect(name=name, value=None, note=f"{dof} degree of freedom: the correction for bias needs at least 2")
    factor, interval = hedges_correction(dof), effect.interval
    moved = replace(interval, low=factor * interval.low, high=factor * interval.high)
    return replace(effect, name=name, value=factor * effect.value, interval=moved)


def cohens_h(rate1: float, rate2: float) -> float:
    """Return Cohen's h = 2 asin(sqrt(rate1)) - 2 asin(sqrt(rate2)), between -pi and pi.

    R: pwr::ES.h(rate1, rate2).

    >>> round(cohens_h(0.8, 0.65), 6)
    0.338808
    """
    for rate in (rate1, rate2):
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"a proportion must lie between 0 and 1, not {rate!r}")
    return 2 * math.asin(math.sqrt(rate1)) - 2 * math.asin(math.sqrt(rate2))
