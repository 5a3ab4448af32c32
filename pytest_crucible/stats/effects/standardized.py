"""Standardised mean differences: the difference in units of a standard deviation, each under the name of that unit.

Independent arms: d (pooled), g (d without its small-sample bias), Glass's delta (the baseline's). Pairs: dz (that of the
differences: what a paired test sees) and dav (the average of both arms': comparable with d of independent arms). dz and
dav of one data set may differ threefold: never report one without its name. Where the deviation is 0 the value is None.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import poch

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Effect
from pytest_crucible.stats.effects.noncentral import noncentral_t_limits
from pytest_crucible.stats.observations import Array, check_share, difference, finite, is_constant, paired

NO_SPREAD = "nothing varies: a difference in units of a standard deviation of 0 is not defined"


def hedges_correction(dof: float) -> float:
    """Hedges's exact J = Gamma(dof/2) / (sqrt(dof/2) Gamma((dof-1)/2)), the factor that unbiases d; 0 at dof 1.

    Hedges (1981), eq. (6e). Raises ValueError below one degree of freedom.

    >>> round(hedges_correction(10), 6)
    0.922746
    """
    if not dof >= 1:
        raise ValueError(f"degrees of freedom must be at least 1, not {dof!r}")
    return 0.0 if dof == 1 else float(poch((dof - 1) / 2, 0.5)) / math.sqrt(dof / 2)


def pooled_deviation(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Pooled standard deviation, sqrt(((n1 - 1) s1^2 + (n2 - 1) s2^2) / (n1 + n2 - 2)); 0 when neither arm varies.

    >>> pooled_deviation([1, 2, 3], [4, 6, 8])
    1.5811388300841898
    """
    first, second = _arms(x, y)
    one, other = _deviation(first), _deviation(second)
    weights = (first.size - 1, second.size - 1)
    share = math.sqrt(weights[0] / sum(weights)), math.sqrt(weights[1] / sum(weights))
    return math.hypot(one * share[0], other * share[1])


def cohens_d(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Cohen's d of two independent arms, (mean x - mean y) / pooled deviation, with its noncentral t interval.

    R: effectsize::cohens_d(x, y). Steiger & Fouladi (1997): exact for normal scores of equal variance. Raises
    NotEnoughData for an empty arm or fewer than three values together.

    >>> effect = cohens_d([1, 2, 3, 4], [2, 4, 4, 6])
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (-1.019, -2.4799, 0.5123)
    """
    check_share(level, "level")
    first, second = _arms(x, y)
    pooled = pooled_deviation(first, second)
    if pooled == 0:
        return Effect(name="cohen d", value=None, note=NO_SPREAD)
    value = float(first.mean() - second.mean()) / pooled
    scale = math.sqrt(1 / first.size + 1 / second.size)
    interval = _interval(value, scale, first.size + second.size - 2, level)
    return Effect(name="cohen d", value=value, interval=interval)


def hedges_g(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Hedges's g = J d, without the bias of d at small n; the interval is that of d times J.

    R: effectsize::hedges_g(x, y). Raises NotEnoughData as `cohens_d` does.

    >>> round(hedges_g([1, 2, 3, 4], [2, 4, 4, 6]).value, 4)
    -0.8852
    """
    effect = cohens_d(x, y, level=level)
    return _corrected(effect, "hedges g", np.size(x) + np.size(y) - 2)


def glass_delta(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """Glass's delta, (mean x - mean y) / deviation of y: for arms whose spreads differ, in units of the baseline's.

    R: effectsize::glass_delta(x, y). The interval is a noncentral t one with n_y - 1 degrees of freedom, its statistic
    delta / sqrt(s_x^2 / (n_x s_y^2) + 1 / n_y). Raises NotEnoughData below two values of y or one of x.

    >>> round(glass_delta([1, 2, 3, 4], [2, 4, 4, 6]).value, 4)
    -0.9186
    """
    check_share(level, "level")
    first, second = finite(x, name="x"), finite(y, name="y")
    if not first.size or second.size < 2:
        raise NotEnoughData(f"{first.size} and {second.size} values: wanted at least 1 of x and 2 of y")
    unit = _deviation(second)
    if unit == 0:
        return Effect(name="glass delta", value=None, note=NO_SPREAD)
    value = float(first.mean() - second.mean()) / unit
    scale = math.sqrt((_deviation(first) / unit) ** 2 / first.size + 1 / second.size)
    return Effect(name="glass delta", value=value, interval=_interval(value, scale, second.size - 1, level))


def cohens_dz(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """dz of pairs, mean difference / deviation of the differences, with its noncentral t interval.

    R: effectsize::cohens_d(x, y, paired = TRUE). The effect size of power calculations for paired tests; it grows with
    the correlation of the arms. Raises ValueError for unequal lengths and NotEnoughData below two pairs.

    >>> effect = cohens_dz([0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.6, 0.5])
    >>> round(effect.value, 4), round(effect.interval.low, 4)
    (1.4142, -0.0799)
    """
    check_share(level, "level")
    differences = _differences(x, y)
    unit = _deviation(differences)
    if unit == 0:
        return Effect(name="cohen dz", value=None, note=NO_SPREAD)
    value = float(differences.mean()) / unit
    interval = _interval(value, 1 / math.sqrt(differences.size), differences.size - 1, level)
    return Effect(name="cohen dz", value=value, interval=interval)


def hedges_gz(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """dz times Hedges's J for n - 1 degrees of freedom; the interval likewise. R: effectsize::hedges_g(paired = TRUE).

    >>> round(hedges_gz([0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.6, 0.5]).value, 4)
    1.0233
    """
    return _corrected(cohens_dz(x, y, level=level), "hedges gz", np.size(x) - 1)


def cohens_dav(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Effect:
    """dav of pairs, mean difference / sqrt((s_x^2 + s_y^2) / 2): on the scale of d, whatever the correlation.

    Cumming (2012). The interval is that of Algina & Keselman (2003, EPM 63:537): the noncentral t limits of the paired
    t, rescaled; it excludes 0 exactly when the paired t test rejects. It takes the ratio of the two deviations as
    known, and is approximate therefore. Raises as `cohens_dz`.

    >>> effect = cohens_dav([0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.6, 0.5])
    >>> round(effect.value, 4), round(effect.interval.low, 4)
    (2.0, -0.113)
    """
    check_share(level, "level")
    differences = _differences(x, y)
    first, second = paired(x, y, names=("x", "y"))
    unit = math.hypot(_deviation(first), _deviation(second)) / math.sqrt(2)
    if unit == 0:
        return Effect(name="cohen dav", value=None, note=NO_SPREAD)
    value, spread = float(differences.mean()) / unit, _deviation(differences)
    if spread == 0:
        return Effect(name="cohen dav", value=value, note="all differences are equal: there is no interval")
    scale = spread / unit / math.sqrt(differences.size)
    return Effect(name="cohen dav", value=value, interval=_interval(value, scale, differences.size - 1, level))


def _arms(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Array, Array]:
    first, second = finite(x, name="x"), finite(y, name="y")
    if not first.size or not second.size or first.size + second.size < 3:
        raise NotEnoughData(f"{first.size} and {second.size} values: a pooled deviation needs at least 3 in two arms")
    return first, second


def _differences(x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    differences = difference(x, y)
    if differences.size < 2:
        raise NotEnoughData(f"{counted(differences.size, 'pair')}: a deviation needs at least 2")
    return differences


def _deviation(array: Array) -> float:
    """Sample standard deviation; 0 for one value, and for values that differ by rounding only."""
    if array.size < 2 or is_constant(array):
        return 0.0
    size = float(np.abs(array).max())  # squares of very small scores would be 0
    return size * float((array / size).std(ddof=1))


def _interval(value: float, scale: float, dof: int, level: float) -> Interval:
    """From the effect to its t statistic, to the noncentralities it is compatible with, and back."""
    low, high = noncentral_t_limits(value / scale, dof, level=level)
    return Interval(low=low * scale, high=high * scale, level=level, method="noncentral t")


def _corrected(effect: Effect, name: str, dof: int) -> Effect:
    if effect.value is None or effect.interval is None:
        return replace(effect, name=name)
    if dof < 2:
        return Effect(name=name, value=None, note=f"{dof} degree of freedom: the correction for bias needs at least 2")
    factor, interval = hedges_correction(dof), effect.interval
    moved = replace(interval, low=factor * interval.low, high=factor * interval.high)
    return replace(effect, name=name, value=factor * effect.value, interval=moved)
