"""The possible ranks of several arms on the same samples, and the arms that may be the best."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, check_share
from pytest_crucible.stats.resampling.draws import Seed
from pytest_crucible.stats.selection.lost_values import LostValues, compare_with_lost
from pytest_crucible.stats.selection.pairwise_max_t import PairwiseMaxT, compare_all_arms


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
