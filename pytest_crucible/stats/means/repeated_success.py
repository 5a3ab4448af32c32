"""pass@k and pass^k: the chance that at least one, or every one, of k attempts at a question succeeds.

Unbiased for each question from n >= k attempts of which c succeeded; the mean over questions has an interval over
questions, because the attempts at one question are not independent news.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import comb

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import noted, with_interval
from pytest_crucible.records import Interval
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean
from pytest_crucible.stats.means.student import mean_interval
from pytest_crucible.stats.observations import Array, Labels, check_share

_UNIT = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedSuccess:
    """The chance of success in k attempts, of each question and over questions."""

    method: str
    """"pass@k" or "pass^k", with the number."""
    mean: float
    interval: Interval | None
    """None for one question, and for too few clusters; `note` then says so."""
    per_question: tuple[float, ...] = field(repr=False)
    k: int
    note: str = ""

    def __str__(self) -> str:
        shown = f"{self.method} {with_interval(self.mean, self.interval)}, questions={len(self.per_question):,}"
        return noted(shown, self.note)


def pass_at_k(
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> RepeatedSuccess:
    """Chance that at least one of k attempts succeeds: 1 - C(n - c, k) / C(n, k), averaged over questions.

    Chen et al. (2021, arXiv 2107.03374). `attempts` is one number for each question, or one for all. The interval is a
    t interval over questions (CR2 with `clusters` of questions), cut to [0, 1]; a point mass where all questions agree.
    Raises ValueError when a question has fewer than k attempts, or counts that cannot be, or there is no question.

    >>> result = pass_at_k(20, [0, 1, 5, 12, 20], 5)
    >>> round(result.per_question[1], 4), round(result.mean, 4)
    (0.25, 0.6105)
    """
    return _repeated(f"pass@{k}", _any_of, attempts, successes, k, clusters, level)


def pass_hat_k(
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> RepeatedSuccess:
    """Chance that all of k attempts succeed, pass^k: C(c, k) / C(n, k), averaged over questions.

    Yao et al. (2024, arXiv 2406.12045). Arguments, interval and errors as in `pass_at_k`.

    >>> result = pass_hat_k(20, [0, 1, 5, 12, 20], 3)
    >>> round(result.per_question[3], 4), round(result.mean, 4)
    (0.193, 0.2404)
    """
    return _repeated(f"pass^{k}", _all_of, attempts, successes, k, clusters, level)


def _repeated(
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
    known = cache(chance)  # a thousand questions with twenty attempts have 21 different answers
    chances = np.array([known(n, succeeded, k) for n, succeeded in counts], dtype=np.float64)
    interval, note = _interval(chances, clusters, level)
    per_question = tuple(chances.tolist())
    return RepeatedSuccess(
        method=method, mean=float(chances.mean()), interval=interval, per_question=per_question, k=k, note=note
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
        raise ValueError(f"wanted attempts and successes of each question, not shapes {tried.shape}, {succeeded.shape}")
    tried = np.broadcast_to(tried, succeeded.shape)
    whole = (tried == np.floor(tried)) & (succeeded == np.floor(succeeded))
    strange = int((~(whole & (succeeded >= 0) & (succeeded <= tried))).sum())
    if strange:
        raise ValueError(f"{strange} of {succeeded.size} questions have counts that are not 0 <= successes <= attempts")
    short = int((tried < k).sum())
    if k < 1 or short:
        raise ValueError(f"k={k} needs to be at least 1, and {short} of {succeeded.size} questions have fewer attempts")
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
    low, high = max(interval.low, 0.0), min(interval.high, 1.0)
    return Interval(low=low, high=high, level=level, method=interval.method), ""
