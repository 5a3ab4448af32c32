"""pass@k and pass^k: the chance that at least one, or every one, of k attempts at a sample succeeds.

The estimate of each sample is unbiased for n >= k attempts with c successes. The interval of the mean is over samples,
because attempts at one sample are not independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import comb

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, check_share
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean
from pytest_crucible.stats.means.student import mean_interval
from pytest_crucible.stats.number_format import with_interval, with_note

_UNIT = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedSuccess:
    """The chance of success in k attempts, for each sample and on average."""

    method: str
    """"pass@k" or "pass^k", with the number."""
    mean: float
    interval: Interval | None
    """None for one sample, and for too few clusters; `note` has the reason."""
    per_sample: tuple[float, ...] = field(repr=False)
    k: int
    note: str = ""

    def __str__(self) -> str:
        line = f"{self.method} {with_interval(self.mean, self.interval)}, samples={len(self.per_sample):,}"
        return with_note(line, self.note)


def pass_at_k(
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> RepeatedSuccess:
    """Return the chance that at least one of k attempts succeeds: the mean of 1 - C(n - c, k) / C(n, k) over samples.

    Chen et al. (2021, arXiv 2107.03374). `attempts` is one number for each sample, or one for all. The interval is a t
    interval over samples (CR2 with `clusters` of samples), cut to [0, 1]; a point mass where all samples agree. Raises
    ValueError when a sample has fewer than k attempts or invalid counts, and without samples.

    >>> result = pass_at_k(20, [0, 1, 5, 12, 20], 5)
    >>> round(result.per_sample[1], 4), round(result.mean, 4)
    (0.25, 0.6105)
    """
    return _success_over_samples(f"pass@{k}", _any_of, attempts, successes, k, clusters, level)


def pass_hat_k(
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> RepeatedSuccess:
    """Return the chance that all of k attempts succeed: the mean of C(c, k) / C(n, k) over samples.

    Yao et al. (2024, arXiv 2406.12045). Arguments, interval and errors as in `pass_at_k`.

    >>> result = pass_hat_k(20, [0, 1, 5, 12, 20], 3)
    >>> round(result.per_sample[3], 4), round(result.mean, 4)
    (0.193, 0.2404)
    """
    return _success_over_samples(f"pass^{k}", _all_of, attempts, successes, k, clusters, level)


def _success_over_samples(
    method: str,
    chance: Callable[[int, int, int], float],
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    clusters: Labels | None,
    level: float,
) -> RepeatedSuccess:
    check_share(level, "level")
    counts = _counts(attempts, successes, k)
    # A thousand samples with twenty attempts have only 21 different chances.
    cached_chance = cache(chance)
    chances = np.array([cached_chance(n, succeeded, k) for n, succeeded in counts], dtype=np.float64)
    interval, note = _interval(chances, clusters, level)
    per_sample = tuple(chances.tolist())
    return RepeatedSuccess(
        method=method, mean=float(chances.mean()), interval=interval, per_sample=per_sample, k=k, note=note
    )


def _any_of(n: int, succeeded: int, k: int) -> float:
    # Exact whole numbers, divided once: neither a chance near 0 nor one near 1 loses digits.
    return (comb(n, k) - comb(n - succeeded, k)) / comb(n, k)


def _all_of(n: int, succeeded: int, k: int) -> float:
    return comb(succeeded, k) / comb(n, k)


def _counts(attempts: npt.ArrayLike, successes: npt.ArrayLike, k: int) -> list[tuple[int, int]]:
    succeeded = np.asarray(successes)
    tried = np.asarray(attempts)
    if succeeded.ndim != 1 or not succeeded.size or tried.shape not in ((), succeeded.shape):
        raise ValueError(
            f"attempts and successes need one number for each sample, not shapes {tried.shape}, {succeeded.shape}"
        )
    tried = np.broadcast_to(tried, succeeded.shape)
    whole = (tried == np.floor(tried)) & (succeeded == np.floor(succeeded))
    strange = int((~(whole & (succeeded >= 0) & (succeeded <= tried))).sum())
    if strange:
        raise ValueError(f"{strange} of {succeeded.size} samples have counts that are not 0 <= successes <= attempts")
    short = int((tried < k).sum())
    if k < 1 or short:
        raise ValueError(f"k={k} must be at least 1, and {short} of {succeeded.size} samples have fewer attempts")
    return [(int(n), int(count)) for n, count in zip(tried.tolist(), succeeded.tolist(), strict=True)]


def _interval(chances: Array, clusters: Labels | None, level: float) -> tuple[Interval | None, str]:
    try:
        if clusters is None:
            interval = mean_interval(chances, level=level, bounds=_UNIT)
        else:
            interval = clustered_interval(clustered_mean(chances, clusters), level=level, bounds=_UNIT)
    except NotEnoughData as refusal:
        return None, str(refusal)
    if interval is None:
        return None, ""
    # A t interval can leave [0, 1]; a chance cannot.
    low, high = max(interval.low, 0.0), min(interval.high, 1.0)
    return Interval(low=low, high=high, level=level, method=interval.method), ""
