"""The possible ranks of several arms on the same samples, which of them are not the best, and claims about a chosen one.

Claims about an arm that the same samples chose hold for every arm at once, by Bonferroni. Simultaneous t bounds with critical
values from the arms' covariance (max-T) would be shorter, but their far tails are wrong for rates near 100 %: of 32 arms that are
90 % right some lower bound is above the truth in 15 % of runs with 50 samples. Exact bounds at alpha / arms hold there
(tests/truth/test_selection_truth.py).

Which arms are not the best: subset selection (Gupta 1965, Technometrics 7:225; Hsu 1984, Ann. Stat. 12:1136) needs smaller critical
values than all pairs together do (`compare_all_arms`), because it claims less: not that each arm it names is worse, but that the
best is not among them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Labels, Range, Side, check_share
from pytest_crucible.stats.comparing import compare
from pytest_crucible.stats.estimating import mean_bound
from pytest_crucible.stats.inputs import Kind
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.moments import point_mass_interval
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.results import Bound, ComparisonResult
from pytest_crucible.stats.selection.max_t import (
    SPENT_SHARE,
    Draws,
    PairwiseMaxT,
    Positions,
    compare_all_arms,
    draw_claims,
    joint_means,
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
    """
    check_draws(draws, "draws")
    arms = values.lowest.shape[1]
    columns = np.concatenate((values.lowest, values.highest), axis=1)
    finite = np.asarray(np.isfinite(columns).all(axis=0))
    p_values = np.ones((arms, arms))
    first, second = np.nonzero(np.outer(finite[:arms], finite[arms:]) & ~np.eye(arms, dtype=bool))
    if first.size:
        adjusted = _adjust(np.where(finite, columns, 0.0), first, second, values.clusters, draws, rng)
        p_values[first, second] = adjusted
    return p_values


def _adjust(
    columns: Array, first: Positions, second: Positions, clusters: Labels | None, draws: int, rng: Seed
) -> Array:
    arms = columns.shape[1] // 2
    joint = joint_means(columns, clusters)
    _, observed, nulls = draw_claims(joint, arms, first, second + arms, draws, generator(rng)[0])
    above = observed > 0
    never = nulls[~above].max(axis=0, initial=-np.inf)
    adjusted = np.ones(first.size)
    adjusted[above], _ = step_down(to_normal(observed[above], joint.dof), nulls[above], never)
    constant = np.isinf(observed)
    adjusted[constant] = np.maximum(adjusted[constant], min(1.0, arms * (arms - 1) * 0.5**joint.units))
    return adjusted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseIntervals:
    """k x k ends of the intervals of "mean of arm i minus mean of arm j"; infinite if nothing is known."""

    low: Array
    high: Array
    level: float
    method: str = "simultaneous max-t"

    def interval(self, arm: int, other: int) -> Interval | None:
        """Return the interval of one difference; None if nothing is known."""
        low, high = float(self.low[arm, other]), float(self.high[arm, other])
        if not np.isfinite([low, high]).all():
            return None
        return Interval(low=low, high=high, level=self.level, method=self.method)


def pairwise_intervals(
    comparisons: PairwiseMaxT, *, level: float = 0.95, bounds: Range | None = None
) -> PairwiseIntervals:
    """Return intervals that contain all differences from the best arm in `level` of runs, although the data chose that arm.

    They are made for all pairs together, and contain all of these in .94 to .96 of simulated runs (.92 with few samples and
    rates from 85 to 99 %, where t intervals are too short). They are the single-step intervals
    (Hsu 1996, Multiple Comparisons, section 5.1), and end at 0 where only step-down proves the difference, so that they agree
    with `p_adjusted`. `bounds` are those of the values. Two arms that differ on no sample, or by a constant, have a
    point-mass interval with bounds, and none without.

    >>> from pytest_crucible.stats.selection.max_t import compare_all_arms
    >>> result = compare_all_arms(np.random.default_rng(0).normal([0.0, 0.1, 1.0], 1.0, (50, 3)))
    >>> intervals = pairwise_intervals(result)
    >>> intervals.low[0].round(2).tolist(), intervals.high[0].round(2).tolist()
    ([0.0, -0.86, -1.95], [0.0, 0.08, -1.04])
    """
    check_share(level, "level")
    # The largest statistic of which the single-step p-value, (1 + #) / (1 + draws) / share, exceeds alpha.
    place = max(int((1 - level) * SPENT_SHARE * (1 + comparisons.draws)), 1)
    critical = float(-np.partition(-comparisons.largest, place - 1)[place - 1])
    half = -float(stdtrit(comparisons.dof, float(ndtr(-critical)))) * comparisons.errors
    low, high = comparisons.differences - half, comparisons.differences + half
    proven = comparisons.p_adjusted <= 1 - level
    low, high = np.where(proven, np.maximum(low, 0.0), low), np.where(proven.T, np.minimum(high, 0.0), high)
    _fill_constant(comparisons, low, high, level, bounds)
    if bounds is not None:
        span = bounds[1] - bounds[0]
        low, high = np.maximum(low, -span), np.minimum(high, span)
    return PairwiseIntervals(low=low, high=high, level=level)


def _fill_constant(comparisons: PairwiseMaxT, low: Array, high: Array, level: float, bounds: Range | None) -> None:
    arms = len(comparisons.means)
    span = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    units = comparisons.n if comparisons.clusters is None else comparisons.clusters
    # By Bonferroni over all pairs: outcomes that did not occur have no correlation to use.
    of_each = 1 - (1 - level) * 2 / (arms * (arms - 1))
    for i, j in zip(*np.nonzero((comparisons.errors == 0) & ~np.eye(arms, dtype=bool)), strict=True):
        interval = point_mass_interval(comparisons.differences[i, j], units, bounds=span, level=of_each)
        low[i, j], high[i, j] = (interval.low, interval.high) if interval else (-np.inf, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInterval:
    """The possible ranks of an arm, from `best` to `worst`; 1 is the strongest."""

    item: Hashable
    rank: int
    best: int
    worst: int

    def __str__(self) -> str:
        return f"{self.item}: rank {self.rank} [{self.best}, {self.worst}]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmRanks:
    """Ranks of the arms by mean with simultaneous intervals, in the order of the arms; items are positions from 0."""

    ranks: tuple[RankInterval, ...]
    p_worse: tuple[float, ...]
    """The smallest adjusted p-value of "another arm has a higher mean", for each arm."""
    p_adjusted: Array
    """Adjusted p-values of "arm i has a higher mean than arm j", k x k: the larger of those with and without the lost values."""
    level: float
    comparisons: PairwiseMaxT

    @property
    def not_proven_worse(self) -> tuple[int, ...]:
        """The arms that no other is proven better than: they include every best arm with the intervals' level."""
        return tuple(arm for arm, rank in enumerate(self.ranks) if rank.best == 1)

    def __str__(self) -> str:
        places = "; ".join(str(rank) for rank in self.ranks)
        return f"{places}, n={self.comparisons.n:,} (step-down max-t, {self.comparisons.draws:,} draws)"


def rank_arms(
    values: npt.ArrayLike,
    *,
    clusters: Labels | None = None,
    lost: LostValues | None = None,
    level: float = 0.95,
    draws: int = 10_000,
    rng: Seed = 0,
) -> ArmRanks:
    """Return the possible ranks of the columns of samples x arms values, for all arms at once.

    Rank 1 has the highest mean, and equal means share the smaller rank. An arm ranks below those proven better and above
    those proven worse, with all pairs tested together by `compare_all_arms`: all true ranks lie inside in at least `level`
    of runs (Mogstad, Romano, Shaikh & Wilhelm 2024, REStud 91:476, section 3.2). `values` are those of the samples that all
    arms have; with `lost`, an arm is proven better only if that holds for all possible lost values. Raises NotEnoughData below
    two samples or five clusters.

    >>> rng = np.random.default_rng(0)
    >>> ranks = rank_arms(rng.normal([0.0, 0.1, 1.0], 1.0, (50, 3)))
    >>> [(rank.rank, rank.best, rank.worst) for rank in ranks.ranks], ranks.not_proven_worse
    ([(3, 2, 3), (2, 2, 3), (1, 1, 1)], (2,))
    """
    check_share(level, "level")
    comparisons = compare_all_arms(values, clusters=clusters, draws=draws, rng=rng)
    p_values = comparisons.p_adjusted
    if lost is not None:
        p_values = np.maximum(p_values, compare_with_lost(lost, draws=draws, rng=rng))
    means, better = np.array(comparisons.means), p_values <= 1 - level
    ranks = tuple(
        RankInterval(
            item=arm,
            rank=1 + int((means > mean).sum()),
            best=1 + int(better[:, arm].sum()),
            worst=means.size - int(better[arm].sum()),
        )
        for arm, mean in enumerate(means)
    )
    return ArmRanks(
        ranks=ranks,
        p_worse=tuple(p_values.min(axis=0).tolist()),
        p_adjusted=p_values,
        level=level,
        comparisons=comparisons,
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
    _, observed, nulls = draw_claims(joint, arms, first, second, draws, generator(rng)[0])
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
