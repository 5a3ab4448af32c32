"""Analysis of variance of several arms with the same samples.

The omnibus test names no arm and gates nothing: test planned contrasts against the baseline in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import ROUNDING, Array, finite_matrix
from pytest_crucible.stats.groups.separation import same_profile_p_value
from pytest_crucible.stats.results import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedAnova:
    """The F test of the arms within samples. Report `p_greenhouse_geisser`, which does not assume sphericity."""

    statistic: float | None
    dof: tuple[int, int]
    p_value: float
    """Valid only under sphericity: all differences between two arms have the same variance."""
    p_greenhouse_geisser: float
    p_huynh_feldt: float
    greenhouse_geisser: float | None
    """Epsilon, the factor on both degrees of freedom: 1 under sphericity, at worst 1 / (k - 1)."""
    huynh_feldt: float | None
    """The less conservative epsilon, at most 1."""
    ss_conditions: float
    ss_subjects: float
    ss_error: float
    eta_squared_partial: float | None
    eta_squared_generalised: float | None
    """Includes the subjects' variance in the denominator, and is comparable with designs of independent arms."""
    n: int
    status: Status = "ok"
    note: str = ""


def rm_anova(matrix: npt.ArrayLike) -> RepeatedAnova:
    """Return the repeated-measures F test of "all columns have one mean"; rows are samples, columns arms.

    R: summary(aov(v ~ cond + Error(subj/cond))) and car::Anova(lm(matrix ~ 1), idata, idesign=~cond). Epsilons: Greenhouse
    & Geisser 1959, Huynh & Feldt 1976; generalised eta squared: Olejnik & Algina 2003. When the residuals are 0, F does
    not exist, and p is the permutation one within rows. Raises ValueError for NaN and NotEnoughData below two rows.

    >>> result = rm_anova([[1, 2, 4], [2, 2, 5], [3, 5, 5], [4, 5, 8]])
    >>> round(result.statistic, 4), round(result.greenhouse_geisser, 4), round(result.p_greenhouse_geisser, 4)
    (16.8, 0.6098, 0.0167)
    """
    array = finite_matrix(matrix)
    n, k = array.shape
    if n < 2:
        raise NotEnoughData(f"{quantity(n, 'subject')}: differences between conditions need at least 2")
    centred = array - array.mean()
    columns = centred.mean(axis=0)
    # Differences between subjects are removed first; what is left is arms and residuals.
    within = centred - centred.mean(axis=1, keepdims=True)
    residuals = within - columns
    parts = (float(n * columns @ columns), float(np.sum((centred - within) ** 2)), float(np.sum(residuals**2)))
    # Residuals of rounding size would give an F of 1e30.
    if np.abs(residuals).max() <= ROUNDING * np.abs(array).max():
        return _without_error(array, within, parts)
    return _analysis(parts, _greenhouse_geisser(residuals), n, k)


def _analysis(parts: tuple[float, float, float], epsilon: float, n: int, k: int) -> RepeatedAnova:
    conditions, subjects, error = parts
    dof = k - 1, (n - 1) * (k - 1)
    statistic = (n - 1) * conditions / error
    huynh_feldt = _huynh_feldt(epsilon, n, k)
    return RepeatedAnova(
        statistic=statistic,
        dof=dof,
        p_value=float(fdtrc(*dof, statistic)),
        p_greenhouse_geisser=float(fdtrc(epsilon * dof[0], epsilon * dof[1], statistic)),
        p_huynh_feldt=float(fdtrc(huynh_feldt * dof[0], huynh_feldt * dof[1], statistic)),
        greenhouse_geisser=epsilon,
        huynh_feldt=huynh_feldt,
        ss_conditions=conditions,
        ss_subjects=subjects,
        ss_error=error,
        eta_squared_partial=conditions / (conditions + error),
        eta_squared_generalised=conditions / (conditions + subjects + error),
        n=n,
    )


def _greenhouse_geisser(residuals: Array) -> float:
    """Return tr(S)^2 / ((k - 1) tr(S^2)), with S the doubly centred covariance of the arms."""
    scaled = residuals / np.abs(residuals).max()
    # Only ratios of traces are used, so the scale of the residuals cancels.
    covariance = scaled.T @ scaled
    return min(1.0, float(np.trace(covariance) ** 2 / ((covariance.shape[0] - 1) * np.sum(covariance**2))))


def _huynh_feldt(epsilon: float, n: int, k: int) -> float:
    denominator = (k - 1) * (n - 1 - (k - 1) * epsilon)
    numerator = n * (k - 1) * epsilon - 2
    return 1.0 if numerator >= denominator else max(numerator / denominator, epsilon)


def _without_error(array: Array, within: Array, parts: tuple[float, float, float]) -> RepeatedAnova:
    n, k = array.shape
    conditions, subjects, _ = parts
    flat = bool(np.ptp(within.mean(axis=0)) <= ROUNDING * np.abs(array).max())
    p_value = 1.0 if flat else same_profile_p_value(array)
    return RepeatedAnova(
        statistic=None,
        dof=(k - 1, (n - 1) * (k - 1)),
        p_value=p_value,
        p_greenhouse_geisser=p_value,
        p_huynh_feldt=p_value,
        greenhouse_geisser=None,
        huynh_feldt=None,
        ss_conditions=0.0 if flat else conditions,
        ss_subjects=subjects,
        ss_error=0.0,
        eta_squared_partial=None if flat else 1.0,
        eta_squared_generalised=None if flat else conditions / (conditions + subjects),
        n=n,
        status="degenerate",
        note="the conditions do not differ in any subject"
        if flat
        else "all subjects differ alike: p is the permutation one",
    )
