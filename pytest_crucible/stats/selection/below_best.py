"""Arms that are not the best: each arm is compared with all others, so that the best arm is rarely excluded.

Subset selection (Gupta 1965, Technometrics 7:225; Hsu 1984, Ann. Stat. 12:1136) needs smaller critical values than all pairs
together do (`compare_all_arms`), because it claims less: not that each arm it names is worse, but that the best is not among
them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.selection.joint_means import joint_means
from pytest_crucible.stats.selection.null_draws import (
    SPENT_SHARE,
    Draws,
    draw_nulls,
    shrink_covariance,
    standard_errors,
    to_normal,
)


def p_below_best(
    values: npt.ArrayLike, *, clusters: Labels | None = None, draws: int = 10_000, rng: Seed = 0
) -> tuple[float, ...]:
    """Return for each column of samples x arms values the p-value of "it is not the best": some other has a higher mean.

    The largest t statistic (CR2 with clusters) of the other arms' differences from it is compared with the largest of normal
    null statistics that are drawn with the correlations of the means, as in `compare_all_arms`. If columns of p <= alpha are
    left out, the best one is among them in at most alpha of runs. Raises NotEnoughData below two samples or five clusters.

    >>> rng = np.random.default_rng(0)
    >>> [round(p, 3) for p in p_below_best(rng.normal([0.0, 0.8, 1.0], 1.0, (50, 3)))]
    [0.0, 0.029, 1.0]
    """
    check_draws(draws, "draws")
    joint = joint_means(values, clusters)
    arms = joint.means.size
    first, second = np.nonzero(~np.eye(arms, dtype=bool))
    errors = standard_errors(joint.covariance, first, second)
    differences = joint.means[first] - joint.means[second]
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(differences > 0, differences / errors, 0.0)
    generate, _ = generator(rng)
    nulls = draw_nulls(shrink_covariance(joint, arms), first, second, draws, generate)
    observed = to_normal(observed, joint.dof)
    # Sign flips of the units: a t statistic is not defined where two arms differ by a constant.
    flips = min(1.0, (arms - 1) * 0.5**joint.units)
    return tuple(_p_value(observed[second == arm], nulls[second == arm], flips) for arm in range(arms))


def _p_value(observed: Array, nulls: Draws, flips: float) -> float:
    largest = float(observed.max())
    if largest <= 0:
        return 1.0
    beyond = np.count_nonzero(nulls.max(axis=0) >= np.float32(largest))
    p_value: float = min((1 + int(beyond)) / (1 + nulls.shape[1]) / SPENT_SHARE, 1.0)
    return max(p_value, flips) if np.isinf(largest) else p_value
