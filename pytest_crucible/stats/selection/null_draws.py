"""Null statistics of pairs of means, drawn with the correlations of the means, and step-down p-values by them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.selection.joint_means import JointMeans

Draws = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

# Variances of differences below this part of the larger variance are rounding.
NO_VARIANCE = 1e-12
# Adjusted p-values are divided by this. Without it 3 to 8 equal arms have a false claim in 5.7 % of 16,000 runs at a nominal
# 5 %: neither t statistics of bounded values nor estimated correlations are exact. With it 4.6 %.
SPENT_SHARE = 0.8


def standard_errors(covariance: Array, first: Positions, second: Positions) -> Array:
    """Return the standard error of each difference of two means; 0 where they never differ but by a constant.

    >>> standard_errors(np.array([[0.04, 0.0], [0.0, 0.05]]), np.array([0]), np.array([1])).round(3)
    array([0.3])
    """
    variances = np.diag(covariance)
    of_difference = variances[first] + variances[second] - 2 * covariance[first, second]
    noise = NO_VARIANCE * np.maximum(variances[first], variances[second])
    return np.asarray(np.sqrt(np.where(of_difference > noise, of_difference, 0.0)), dtype=np.float64)


def shrink_covariance(joint: JointMeans, arms: int) -> Array:
    """Return the covariance of the means around their average, shrunk to independence when units are few.

    With hardly more units than arms, estimated correlations are too strong in places, and draws too small. Independence
    needs no estimate and has the largest critical values known (Tukey's conjecture; Hayter 1984, Ann. Stat. 12:61).
    """
    means = joint.means.size
    centred = joint.covariance - joint.covariance.mean(axis=0)
    centred -= centred.mean(axis=1)[:, None]
    weight = arms / (arms + joint.dof)
    independent = np.diag(np.diag(centred)) * means / (means - 1)
    return np.asarray((1 - weight) * centred + weight * independent, dtype=np.float64)


def draw_nulls(covariance: Array, first: Positions, second: Positions, draws: int, rng: np.random.Generator) -> Draws:
    """Return pairs x draws of normal statistics under equal means. Single precision halves the time of the comparisons."""
    # A root by eigenvalues exists for singular matrices too: arms with the same values, fewer clusters than arms.
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    means = root @ rng.standard_normal((len(root), draws))
    errors = standard_errors(covariance, first, second)
    inverse = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0).astype(np.float32)
    means = means.astype(np.float32)
    nulls: Draws = means[first]
    nulls -= means[second]
    nulls *= inverse[:, None]
    return nulls


def to_normal(statistics: Array, dof: float) -> Array:
    """Return normal statistics with the same one-sided p-values as these t statistics.

    Each pair has a standard error of its own. Draws from one multivariate t, which has the same error everywhere, would be
    too small: 32 equal arms in 40 clusters then have a false claim in 11 % of runs.

    >>> to_normal(np.array([2.228]), 10.0).round(2)
    array([1.96])
    """
    return -np.asarray(ndtri(stdtr(dof, -statistics)), dtype=np.float64)


def step_down(observed: Array, nulls: Draws, largest: Draws) -> tuple[Array, Draws]:
    """Return adjusted p-values of claims, and of each draw the largest statistic of all claims.

    `observed` and the rows of `nulls` are of the claims that may be proven; `largest` is, of each draw, the largest
    statistic of the claims that never are and so stay in every step.
    """
    order = np.argsort(observed, kind="stable")
    largest, beyond = largest.copy(), np.empty(observed.size)
    for position in order:
        np.maximum(largest, nulls[position], out=largest)
        beyond[position] = np.count_nonzero(largest >= np.float32(observed[position]))
    p_values: Array = np.minimum((1 + beyond) / (1 + largest.size) / SPENT_SHARE, 1.0)
    # From the largest statistic down, adjusted p-values ascend.
    p_values[order[::-1]] = np.maximum.accumulate(p_values[order[::-1]])
    return p_values, largest
