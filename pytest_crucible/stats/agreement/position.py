"""Position bias of pairwise judges: a preference for the reply shown first, and the win rate without it.

Each pair is judged twice, with the candidate shown first and with the baseline shown first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, check_share, paired_arrays
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean
from pytest_crucible.stats.means.t_tests import mean_interval
from pytest_crucible.stats.number_format import p_equals, quantity, with_interval
from pytest_crucible.stats.proportions.one import clopper_pearson_interval, wilson_interval
from pytest_crucible.stats.proportions.paired import mcnemar_exact


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """The effect of swapping the order of the replies."""

    pairs: int
    towards_first: int
    """Pairs whose verdict, on swapping, followed the first position."""
    towards_second: int
    p_value: float
    """Exact sign test of "neither position is preferred"."""
    first_share: float | None
    """`towards_first` among the pairs whose verdict moved; 1/2 without bias. None when no verdict moved."""
    first_interval: Interval
    """Clopper-Pearson: it excludes 1/2 whenever the p-value is below 1 - level, and only then."""
    consistency: float
    """Share of pairs with the same verdict in both orders."""
    consistency_interval: Interval
    win_rate: float
    """The candidate's win rate, ties half, averaged over both orders: a preference for a position cancels."""
    win_interval: Interval | None
    clusters: int | None = None

    def __str__(self) -> str:
        moved = f"moved verdicts {with_interval(self.first_share, self.first_interval)} towards the first position"
        same = f"same verdict {with_interval(self.consistency, self.consistency_interval)}"
        won = f"win rate {with_interval(self.win_rate, self.win_interval)}"
        return f"{moved}, {p_equals(self.p_value)}; {same}; {won}, pairs={self.pairs:,}"


def position_bias(
    candidate_first: npt.ArrayLike,
    baseline_first: npt.ArrayLike,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> PositionBias:
    """Return the position bias of a pairwise judge, its consistency, and the win rate over both orders.

    Both arguments hold the candidate's result in each pair: 1 won, 0.5 tie, 0 lost; first when it was shown first, then
    when the baseline was. The interval of the win rate is t over pairs, or CR2 over `clusters` of pairs; that of a
    sweep is the point-mass interval. The sign test and its interval treat pairs as independent. Raises ValueError for
    other verdicts and unequal lengths, NotEnoughData below 2 pairs.

    >>> result = position_bias([1, 1, 1, 1, 0.5, 0], [1, 0, 0, 1, 0, 0])
    >>> result.towards_first, result.towards_second, result.p_value, round(result.win_rate, 4)
    (3, 0, 0.25, 0.5417)
    """
    check_share(level, "level")
    first, second = paired_arrays(candidate_first, baseline_first)
    invalid = int(sum(np.sum((order != 0) & (order != 0.5) & (order != 1)) for order in (first, second)))
    if invalid:
        raise ValueError(f"{invalid} of {2 * first.size} verdicts are not 1 (won), 0.5 (tie) or 0 (lost)")
    if first.size < 2:
        raise NotEnoughData(f"{quantity(first.size, 'pair')}: position bias needs at least 2")
    forwards, backwards = int(np.sum(first > second)), int(np.sum(first < second))
    moved, n = forwards + backwards, first.size
    # Averaging both orders inside the pair cancels the position and halves the ties.
    win_interval, count = _win_interval((first + second) / 2, clusters, level)
    return PositionBias(
        pairs=n,
        towards_first=forwards,
        towards_second=backwards,
        p_value=mcnemar_exact(forwards, backwards),
        first_share=forwards / moved if moved else None,
        first_interval=clopper_pearson_interval(forwards, moved, level=level),
        consistency=(n - moved) / n,
        consistency_interval=wilson_interval(n - moved, n, level=level),
        win_rate=float((first + second).mean()) / 2,
        win_interval=win_interval,
        clusters=count,
    )


def _win_interval(wins: Array, clusters: Labels | None, level: float) -> tuple[Interval | None, int | None]:
    if clusters is None:
        return _cut_to_unit(mean_interval(wins, level=level, bounds=(0.0, 1.0))), None
    mean = clustered_mean(wins, clusters)
    return _cut_to_unit(clustered_interval(mean, level=level, bounds=(0.0, 1.0))), mean.clusters


def _cut_to_unit(interval: Interval | None) -> Interval | None:
    """Return the interval cut to [0, 1], the range of a rate."""
    return interval and replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0))
