"""A/A self-test: how often would this comparison cry wolf on this suite, where nothing differs?

Two arms are made of one by chance, again and again: repeats of each sample are dealt to the arms at random. Whatever
the scores look like - all those zeros, that one passage - every alarm is then a false one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Interval
from pytest_crucible.stats.comparing import comparison
from pytest_crucible.stats.declared import OPEN, Kind, declared_pairs
from pytest_crucible.stats.estimating import known_kind
from pytest_crucible.stats.observations import Array, Codes, Labels, Range, check_share, cluster_codes, finite
from pytest_crucible.stats.proportions.one import wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """How many of the replicates, in which nothing differs, a comparison called significant."""

    alarms: int
    replicates: int
    unanswered: int
    """Replicates in which the method refused to answer; they raise no alarm."""
    interval: Interval
    """Of the rate, over replicates; 99 %."""
    alpha: float
    samples: int
    clusters: int | None
    method: str
    seed: int

    @property
    def rate(self) -> float:
        return self.alarms / self.replicates

    @property
    def holds(self) -> bool:
        """False when the rate is above alpha by more than the replicates' own chance and a tenth of alpha."""
        return self.interval.low <= 1.1 * self.alpha


def false_alarm_rate(
    values: npt.ArrayLike,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
    replicates: int = 2000,
    seed: int = 0,
) -> FalseAlarms:
    """Deal the repeats of each sample to two arms at random, compare these, and count p <= alpha.

    `values` is samples x repeats, at least two. Two arms that were measured once each may stand for two repeats: then their
    answers are swapped at random within each sample. Samples of one cluster are dealt alike, so that what they share stays
    together. With an odd number of repeats one of each sample sits out. The rate is that of these samples: it shows whether
    the method bears their shape, not how other samples would behave.
    Raises ValueError for fewer than two samples or repeats and for NaN, with their count.

    >>> rng = np.random.default_rng(1)
    >>> false_alarm_rate(rng.random((40, 2)), replicates=400).holds
    True
    """
    matrix = _repeats(values)
    check_share(alpha, "alpha")
    if replicates < 1:
        raise ValueError(f"wanted at least 1 replicate, not {replicates}")
    known = known_kind(kind, bounds, matrix.ravel())
    found = [
        comparison(
            declared_pairs(first, second, kind=known, bounds=OPEN if bounds is None else bounds, clusters=clusters),
            alternative="two-sided",
            alpha=alpha,
        )
        for first, second in _deals(matrix, _dealt_alike(clusters, matrix.shape[0]), replicates, seed)
    ]
    alarms = sum(one.significant for one in found)
    return FalseAlarms(
        alarms=alarms,
        replicates=replicates,
        unanswered=sum(one.p_value is None for one in found),
        interval=wilson_interval(alarms, replicates, level=0.99),
        alpha=alpha,
        samples=matrix.shape[0],
        clusters=found[0].clusters,
        method=found[0].method,
        seed=seed,
    )


def _repeats(values: npt.ArrayLike) -> Array:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 2:
        raise ValueError(f"wanted at least 2 samples x 2 repeats, not the shape {matrix.shape}")
    finite(matrix.ravel())
    return matrix


def _dealt_alike(clusters: Labels | None, samples: int) -> Codes:
    return np.arange(samples) if clusters is None else cluster_codes(clusters, samples)[0]


def _deals(matrix: Array, groups: Codes, replicates: int, seed: int) -> Iterator[tuple[Array, Array]]:
    rng, half = np.random.default_rng(seed), matrix.shape[1] // 2
    orders = np.tile(np.arange(matrix.shape[1]), (int(groups.max()) + 1, 1))
    for _ in range(replicates):
        dealt = np.take_along_axis(matrix, rng.permuted(orders, axis=1)[groups], axis=1)
        yield dealt[:, :half].mean(axis=1), dealt[:, half : 2 * half].mean(axis=1)
