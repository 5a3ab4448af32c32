"""Claims about one of several arms that the same samples chose, and which arms are not the best.

Claims about one of several arms that the same samples chose: they hold for every arm at once, by Bonferroni.
Simultaneous t bounds with critical values from the arms' covariance (max-T) would be shorter, but their far tails are wrong
for rates near 100 %: of 32 arms that are 90 % right some lower bound is above the truth in 15 % of runs with 50 samples.
Exact bounds at alpha / arms hold there (tests/truth/test_selection_truth.py).

Which arms are not the best: each arm is compared with all others, so that the best arm is rarely excluded.
Subset selection (Gupta 1965, Technometrics 7:225; Hsu 1984, Ann. Stat. 12:1136) needs smaller critical values than all pairs
together do (`compare_all_arms`), because it claims less: not that each arm it names is worse, but that the best is not among
them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, Range, Side, check_share
from pytest_crucible.stats.comparing import compare
from pytest_crucible.stats.comparison_result import ComparisonResult
from pytest_crucible.stats.estimating import mean_bound
from pytest_crucible.stats.inputs import Kind
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.results import Bound
from pytest_crucible.stats.selection.max_t import (
    SPENT_SHARE,
    Draws,
    draw_nulls,
    joint_means,
    shrink_covariance,
    standard_errors,
    to_normal,
)


def bound_chosen_arm(
    values: npt.ArrayLike,
    *,
    arms: int,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
    side: Side = "lower",
) -> Bound:
    """Return a one-sided bound for the mean of an arm that was chosen among `arms` by the same samples.

    With 1 - alpha the bounds of all arms hold, so that of the chosen one does, however it was chosen and by whichever metric.
    It is `mean_bound` at alpha / arms.

    >>> right = [1] * 45 + [0] * 5
    >>> [round(bound_chosen_arm(right, arms=arms).value, 3) for arms in (1, 8, 32)]
    [0.801, 0.747, 0.716]
    """
    check_share(alpha, "alpha")
    _check_arms(arms)
    return mean_bound(values, kind=kind, bounds=bounds, clusters=clusters, alpha=alpha / arms, side=side)


def compare_chosen_arm(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    arms: int,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
) -> ComparisonResult:
    """Return the paired comparison of a baseline with an arm that was chosen among `arms` by the same samples.

    Interval and p-value hold for all arms at once: it is `compare` at alpha / arms, with the p-value times the arms. The
    estimate is not corrected and too high on average; `winner_from_values` corrects it.

    >>> better, baseline = [1] * 40 + [0] * 10, [1] * 28 + [0] * 22
    >>> [round(compare_chosen_arm(better, baseline, arms=arms).p_value, 4) for arms in (1, 8)]
    [0.0004, 0.0028]
    """
    check_share(alpha, "alpha")
    _check_arms(arms)
    result = compare(candidate, baseline, kind=kind, bounds=bounds, clusters=clusters, alpha=alpha / arms)
    return replace(result, p_value=_times(result.p_value, arms), p_exact=_times(result.p_exact, arms))


def _times(p_value: float | None, arms: int) -> float | None:
    return None if p_value is None else min(1.0, p_value * arms)


def _check_arms(arms: int) -> None:
    if arms < 1:
        raise ValueError(f"the arm was chosen among {arms}: give the number of all arms, at least 1")


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
