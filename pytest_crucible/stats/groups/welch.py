"""Welch's analysis of variance: do the means of independent arms differ, whatever the variances of the arms.

An omnibus test is no gatekeeper: planned contrasts against the baseline are tested whatever it says, and it names no arm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import fdtrc

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.groups.anova import Arms, deviations, rounding_noise
from pytest_crucible.stats.groups.separation import separation_p_value
from pytest_crucible.stats.observations import Array, finite_groups


def welch_anova(groups: Arms) -> Significance:
    """F test of "all means are equal" that allows unequal variances; R: oneway.test(v ~ g, var.equal=FALSE).

    An omnibus test, and no gatekeeper for planned contrasts. With two groups it is Welch's t test, F = t^2. One constant
    group is the limit of an ever smaller variance, and fine; with two or more F does not exist, and there is a p-value
    only where no group varies at all. Raises NotEnoughData for a group of one value. Welch 1951 (Biometrika 38:330).

    >>> result = welch_anova([[1, 2, 3], [2, 4, 6], [5, 9, 13]])
    >>> round(result.statistic, 4), round(result.dof[1], 4), round(result.p_value, 4)
    (4.2327, 3.2941, 0.123)
    """
    arrays = finite_groups(groups)
    sizes = [group.size for group in arrays]
    if min(sizes) < 2:
        raise NotEnoughData(f"a group of {min(sizes)} value has no variance: each needs at least 2")
    noise = rounding_noise(arrays)
    constant = [group for group in arrays if np.ptp(group) <= noise]
    if len(constant) > 1:
        return _undefined(arrays, constant, noise)
    statistic, dof = _statistic(arrays, np.array(sizes, dtype=np.float64), noise)
    p_value = float(fdtrc(*dof, statistic))
    return Significance(method="welch anova", statistic=statistic, p_value=p_value, dof=dof, n=tuple(sizes))


def _statistic(groups: Sequence[Array], sizes: Array, noise: float) -> tuple[float, tuple[float, float]]:
    k = len(groups)
    spreads = deviations(groups, noise=noise)
    shares = _shares(spreads, sizes)
    means = np.array([group.mean() for group in groups])
    means -= means[shares.argmax()]  # so that a common shift leaves no rounding behind
    distances = means - np.sum(shares * means)
    # A constant group is the centre itself: its distance is 0, whatever that is divided by.
    between = float(np.sum(sizes * (distances / np.where(spreads == 0, 1.0, spreads)) ** 2)) / (k - 1)
    uncertainty = float(np.sum((1 - shares) ** 2 / (sizes - 1))) / (k * k - 1)
    return between / (1 + 2 * (k - 2) * uncertainty), (float(k - 1), 1 / (3 * uncertainty))


def _shares(spreads: Array, sizes: Array) -> Array:
    """Share of each group in the sum of n / variance; a constant group has all of it."""
    smallest = spreads.min()
    if smallest == 0:
        return np.asarray(spreads == 0, dtype=np.float64)
    weights = sizes * (smallest / spreads) ** 2
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _undefined(groups: Sequence[Array], constant: Sequence[Array], noise: float) -> Significance:
    nothing_varies = len(constant) == len(groups)
    return Significance(
        method="welch anova",
        statistic=None,
        p_value=separation_p_value(groups, noise=noise) if nothing_varies else None,
        n=tuple(group.size for group in groups),
        status="degenerate",
        note=f"{len(constant)} of {len(groups)} groups do not vary, so F does not exist"
        + ("; p counts the arrangements" if nothing_varies else ""),
    )
