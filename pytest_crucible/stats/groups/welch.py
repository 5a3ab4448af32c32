"""Welch's analysis of variance: whether the means of independent arms differ, for any variances.

The omnibus test names no arm and gates nothing: test planned contrasts against the baseline in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import fdtrc

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Array, finite_groups
from pytest_crucible.stats.groups.anova import Arms, deviations, rounding_noise
from pytest_crucible.stats.groups.separation import separation_p_value
from pytest_crucible.stats.results import Significance


def welch_anova(groups: Arms) -> Significance:
    """Return Welch's F test of "all means are equal" for unequal variances; R: oneway.test(v ~ g, var.equal=FALSE).

    Welch 1951 (Biometrika 38:330). With two groups it is Welch's t test, F = t^2. One constant group is allowed, as the
    limit of a variance towards 0. With two or more, F does not exist, and a p-value exists only when no group varies.
    Raises NotEnoughData for a group of one value.

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
    # One constant group is the limit of a vanishing variance; with two, both weights would be infinite.
    if len(constant) > 1:
        return _undefined_result(arrays, constant, noise)
    statistic, dof = _statistic(arrays, np.array(sizes, dtype=np.float64), noise)
    p_value = float(fdtrc(*dof, statistic))
    return Significance(method="welch anova", statistic=statistic, p_value=p_value, dof=dof, n=tuple(sizes))


def _statistic(groups: Sequence[Array], sizes: Array, noise: float) -> tuple[float, tuple[float, float]]:
    k = len(groups)
    spreads = deviations(groups, noise=noise)
    shares = _shares(spreads, sizes)
    means = np.array([group.mean() for group in groups])
    # Relative to the heaviest group, so that a common shift of all values leaves no rounding error.
    means -= means[shares.argmax()]
    distances = means - np.sum(shares * means)
    # A constant group is the centre itself: its distance is 0, so any divisor other than 0 will do.
    between = float(np.sum(sizes * (distances / np.where(spreads == 0, 1.0, spreads)) ** 2)) / (k - 1)
    uncertainty = float(np.sum((1 - shares) ** 2 / (sizes - 1))) / (k * k - 1)
    return between / (1 + 2 * (k - 2) * uncertainty), (float(k - 1), 1 / (3 * uncertainty))


def _shares(spreads: Array, sizes: Array) -> Array:
    """Return the share of each group in the sum of n / variance; a constant group has all of it."""
    smallest = spreads.min()
    if smallest == 0:
        return np.asarray(spreads == 0, dtype=np.float64)
    # Relative to the smallest deviation, so that no weight overflows.
    weights = sizes * (smallest / spreads) ** 2
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _undefined_result(groups: Sequence[Array], constant: Sequence[Array], noise: float) -> Significance:
    nothing_varies = len(constant) == len(groups)
    return Significance(
        method="welch anova",
        statistic=None,
        p_value=separation_p_value(groups, noise=noise) if nothing_varies else None,
        n=tuple(group.size for group in groups),
        status="degenerate",
        note=f"{len(constant)} of {len(groups)} groups do not vary, so F does not exist"
        + ("; p is the permutation one" if nothing_varies else ""),
    )
