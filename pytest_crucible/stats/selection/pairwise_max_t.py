"""All pairs of arms on the same samples, tested together: step-down max-T with simulated critical values.

Every claim "arm i has a higher mean than arm j" is a one-sided hypothesis of its own, so that the family-wise error
includes claims in the wrong direction. The statistics of the pairs are strongly correlated, which Holm cannot use: with
32 arms there are 992 claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.selection.joint_means import joint_means
from pytest_crucible.stats.selection.null_draws import (
    Draws,
    draw_nulls,
    shrink_covariance,
    standard_errors,
    step_down,
    to_normal,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseMaxT:
    """k x k results: row i and column j are of the claim "arm i has a higher mean than arm j"."""

    means: tuple[float, ...]
    differences: Array
    statistics: Array
    """t of each difference; 0 where two arms never differ, infinite if they differ by a constant."""
    p_adjusted: Array
    """Family-wise adjusted; 1 on the diagonal."""
    errors: Array
    """Standard errors of the differences; 0 where two arms differ by a constant or not at all."""
    dof: float
    largest: Draws
    """The largest normal statistic of all claims, for each draw."""
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
    of the means, and compared with t statistics (CR2 with clusters) by their one-sided p-values;
    p = (1 + #) / (1 + draws) / 0.8 (`SPENT_SHARE`). Raises NotEnoughData below two samples or five clusters.

    >>> rng = np.random.default_rng(0)
    >>> result = compare_all_arms(rng.normal([0.0, 0.1, 1.0], 1.0, (50, 3)))
    >>> result.p_adjusted.round(3).tolist()
    [[1.0, 1.0, 1.0], [0.095, 1.0, 1.0], [0.0, 0.0, 1.0]]
    """
    check_draws(draws, "draws")
    joint = joint_means(values, clusters)
    arms = joint.means.size
    # Each pair once, in the direction of its difference: the claim in the other direction is never proven.
    rows, columns = np.triu_indices(arms, 1)
    swapped = joint.means[rows] < joint.means[columns]
    first, second = np.where(swapped, columns, rows), np.where(swapped, rows, columns)
    errors = standard_errors(joint.covariance, first, second)
    differences = joint.means[first] - joint.means[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(differences > 0, differences / errors, 0.0)
    generate, seed = generator(rng)
    nulls = draw_nulls(shrink_covariance(joint, arms), first, second, draws, generate)
    # The claims in the other direction are never proven.
    adjusted, largest = step_down(to_normal(observed, joint.dof), nulls, -nulls.min(axis=0))
    constant = np.isinf(observed)
    # Sign flips of the units, by Bonferroni over all claims: a t statistic is not defined.
    adjusted[constant] = np.maximum(adjusted[constant], min(1.0, arms * (arms - 1) * 0.5**joint.units))
    statistics, p_values = np.zeros((arms, arms)), np.ones((arms, arms))
    statistics[first, second], statistics[second, first] = observed, -observed
    p_values[first, second] = adjusted
    errors_of_pairs = np.zeros((arms, arms))
    errors_of_pairs[first, second] = errors_of_pairs[second, first] = errors
    return PairwiseMaxT(
        means=tuple(joint.means.tolist()),
        differences=np.subtract.outer(joint.means, joint.means),
        statistics=statistics,
        p_adjusted=p_values,
        errors=errors_of_pairs,
        dof=joint.dof,
        largest=largest,
        draws=draws,
        seed=seed,
        n=joint.n,
        clusters=joint.clusters,
    )
