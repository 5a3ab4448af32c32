"""All pairs of arms where some values are lost: claims that hold for all possible lost values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array, Labels
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.selection.joint_means import joint_means
from pytest_crucible.stats.selection.null_draws import (
    Positions,
    draw_nulls,
    shrink_covariance,
    standard_errors,
    step_down,
    to_normal,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LostValues:
    """Samples x arms values with the lost ones at the lowest and at the highest value that exists, perhaps infinite."""

    lowest: Array
    highest: Array
    clusters: Labels | None = None


def compare_with_lost(values: LostValues, *, draws: int = 10_000, rng: Seed = 0) -> Array:
    """Return k x k adjusted p-values of "arm i has a higher mean than arm j" at the values that are worst for the claim.

    Worst are the lost values of arm i at their lowest and those of arm j at their highest. All claims are tested together,
    as in `compare_all_arms`. A claim that an infinite value contradicts has p = 1. Raises NotEnoughData below two samples
    or five clusters.

    >>> rng = np.random.default_rng(0)
    >>> lowest = np.column_stack([rng.random(50), rng.random(50) + 1])
    >>> highest = lowest.copy()
    >>> lowest[:30, 1], highest[:30, 1] = 0.0, 2.0
    >>> compare_with_lost(LostValues(lowest=lowest, highest=highest)).round(2).tolist()
    [[1.0, 1.0], [0.3, 1.0]]
    """
    check_draws(draws, "draws")
    arms = values.lowest.shape[1]
    columns = np.concatenate((values.lowest, values.highest), axis=1)
    known = np.asarray(np.isfinite(columns).all(axis=0))
    p_values = np.ones((arms, arms))
    first, second = np.nonzero(np.outer(known[:arms], known[arms:]) & ~np.eye(arms, dtype=bool))
    if first.size:
        adjusted = _adjust(np.where(known, columns, 0.0), first, second, values.clusters, draws, rng)
        p_values[first, second] = adjusted
    return p_values


def _adjust(
    columns: Array, first: Positions, second: Positions, clusters: Labels | None, draws: int, rng: Seed
) -> Array:
    arms = columns.shape[1] // 2
    joint = joint_means(columns, clusters)
    second = second + arms
    errors = standard_errors(joint.covariance, first, second)
    differences = joint.means[first] - joint.means[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(differences > 0, differences / errors, 0.0)
    nulls = draw_nulls(shrink_covariance(joint, arms), first, second, draws, generator(rng)[0])
    above = observed > 0
    never = nulls[~above].max(axis=0, initial=-np.inf)
    adjusted = np.ones(first.size)
    adjusted[above], _ = step_down(to_normal(observed[above], joint.dof), nulls[above], never)
    constant = np.isinf(observed)
    adjusted[constant] = np.maximum(adjusted[constant], min(1.0, arms * (arms - 1) * 0.5**joint.units))
    return adjusted
