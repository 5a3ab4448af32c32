"""All pairs of arms on the same samples, tested together: step-down max-T with simulated critical values.

Every claim "arm i has a higher mean than arm j" is a one-sided hypothesis of its own, so that the family-wise error
includes claims in the wrong direction. The statistics of the pairs are strongly correlated, which Holm cannot use: with
32 arms there are 992 claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr

from pytest_crucible.stats.arrays import Array, Labels
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.selection.joint_means import JointMeans, joint_means

# Variances of differences below this part of the larger variance are rounding.
NO_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseMaxT:
    """k x k results: row i and column j are of the claim "arm i has a higher mean than arm j"."""

    means: tuple[float, ...]
    differences: Array
    statistics: Array
    """t of each difference; 0 where two arms never differ, infinite where they differ by a constant."""
    p_adjusted: Array
    """Family-wise adjusted; 1 on the diagonal."""
    draws: int
    seed: int | None
    n: int
    clusters: int | None


def compare_all_arms(
    values: npt.ArrayLike, *, clusters: Labels | None = None, draws: int = 10_000, rng: Seed = 0
) -> PairwiseMaxT:
    """Return which columns of samples x arms values have a higher mean than which, all claims together.

    Romano & Wolf (2005, Econometrica 73:1237, algorithm 4.1): the largest statistic is compared with the largest of all
    claims, each next one with the largest of those not yet proven. Normal null statistics are drawn with the correlations
    of the means, and compared with t statistics (CR2 with clusters) by their one-sided p-values; p = (1 + #) / (1 + draws).
    Raises NotEnoughData below two samples or five clusters.

    >>> rng = np.random.default_rng(0)
    >>> result = compare_all_arms(rng.normal([0.0, 0.1, 1.0], 1.0, (50, 3)))
    >>> result.p_adjusted.round(3).tolist()
    [[1.0, 1.0, 1.0], [0.076, 1.0, 1.0], [0.0, 0.0, 1.0]]
    """
    check_draws(draws, "draws")
    joint = joint_means(values, clusters)
    arms = joint.means.size
    # Each pair once, in the direction of its difference: the claim in the other direction is never proven.
    rows, columns = np.triu_indices(arms, 1)
    swapped = joint.means[rows] < joint.means[columns]
    first, second = np.where(swapped, columns, rows), np.where(swapped, rows, columns)
    errors = _standard_errors(joint.covariance, first, second)
    differences = joint.means[first] - joint.means[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(differences > 0, differences / errors, 0.0)
    generate, seed = generator(rng)
    nulls = _draw_nulls(_shrink(joint), first, second, draws, generate)
    adjusted = _step_down(_to_normal(observed, joint.dof), nulls)
    constant = np.isinf(observed)
    # Sign flips of the units, by Bonferroni over all claims: a t statistic is not defined.
    adjusted[constant] = np.maximum(adjusted[constant], min(1.0, arms * (arms - 1) * 0.5**joint.units))
    statistics, p_values = np.zeros((arms, arms)), np.ones((arms, arms))
    statistics[first, second], statistics[second, first] = observed, -observed
    p_values[first, second] = adjusted
    return PairwiseMaxT(
        means=tuple(joint.means.tolist()),
        differences=np.subtract.outer(joint.means, joint.means),
        statistics=statistics,
        p_adjusted=p_values,
        draws=draws,
        seed=seed,
        n=joint.n,
        clusters=joint.clusters,
    )


def _standard_errors(covariance: Array, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]) -> Array:
    variances = np.diag(covariance)
    of_difference = variances[first] + variances[second] - 2 * covariance[first, second]
    noise = NO_VARIANCE * np.maximum(variances[first], variances[second])
    return np.asarray(np.sqrt(np.where(of_difference > noise, of_difference, 0.0)), dtype=np.float64)


def _shrink(joint: JointMeans) -> Array:
    """Return the covariance of the arms around their mean, shrunk to independence when units are few.

    With hardly more units than arms, estimated correlations are too strong in places, and draws too small. Independence
    needs no estimate and has the largest critical values known (Tukey's conjecture; Hayter 1984, Ann. Stat. 12:61).
    """
    arms = joint.means.size
    centred = joint.covariance - joint.covariance.mean(axis=0)
    centred -= centred.mean(axis=1)[:, None]
    weight = arms / (arms + joint.dof)
    independent = np.diag(np.diag(centred)) * arms / (arms - 1)
    return np.asarray((1 - weight) * centred + weight * independent, dtype=np.float64)


def _draw_nulls(
    covariance: Array,
    first: npt.NDArray[np.intp],
    second: npt.NDArray[np.intp],
    draws: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """Return pairs x draws of normal statistics under equal means. Single precision halves the time of the comparisons."""
    # A root by eigenvalues exists for singular matrices too: arms with the same values, fewer clusters than arms.
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    means = root @ rng.standard_normal((len(root), draws))
    errors = _standard_errors(covariance, first, second)
    inverse = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0).astype(np.float32)
    means = means.astype(np.float32)
    nulls: npt.NDArray[np.float32] = means[first]
    nulls -= means[second]
    nulls *= inverse[:, None]
    return nulls


def _to_normal(statistics: Array, dof: float) -> Array:
    """Return normal statistics with the same one-sided p-values.

    Each pair has a standard error of its own. Draws from one multivariate t, which has the same error everywhere, would be
    too small: 32 equal arms in 40 clusters then have a false claim in 11 % of runs.
    """
    return -np.asarray(ndtri(stdtr(dof, -statistics)), dtype=np.float64)


def _step_down(observed: Array, nulls: npt.NDArray[np.float32]) -> Array:
    """Return adjusted p-values of the claims in the direction of the differences."""
    order = np.argsort(observed, kind="stable")
    # The claims in the other direction are never proven and stay in every step.
    largest = -nulls.min(axis=0)
    beyond = np.empty(observed.size)
    for position in order:
        np.maximum(largest, nulls[position], out=largest)
        beyond[position] = np.count_nonzero(largest >= np.float32(observed[position]))
    p_values: Array = (1 + beyond) / (1 + nulls.shape[1])
    # From the largest statistic down, adjusted p-values ascend.
    p_values[order[::-1]] = np.maximum.accumulate(p_values[order[::-1]])
    return p_values
