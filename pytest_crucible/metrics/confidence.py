"""Does a model know when it is right? Confidence against correctness: ECE, Brier score, AUROC, reliability table.

Guo et al. (2017, ICML) for the expected calibration error; Brier (1950); AUROC is the chance that a right answer has more
confidence than a wrong one (Mann-Whitney, ties count half).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval, Reply

Floats = npt.NDArray[np.float64]
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers whose confidence lies in (low, high]; the first bin has its lower end as well."""

    low: float
    high: float
    n: int
    confidence: float | None
    """Their mean; None in an empty bin."""
    accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far confidence and correctness agree."""

    ece: float
    """Sum over bins of n_bin / n * |accuracy - confidence|. Biased upwards in small samples: read it with its interval."""
    ece_interval: Interval | None
    """None, as the others, where no resample differs from another: then these answers cannot say how far they are off."""
    brier: float
    """Mean of (confidence - correct)^2: 0 is perfect, 0.25 is what always saying one half gets."""
    brier_interval: Interval | None
    auroc: float | None
    """None where all answers are right, or all wrong."""
    auroc_interval: Interval | None
    accuracy: float
    confidence: float
    table: tuple[ReliabilityBin, ...]
    n: int


def confidence_of(reply: Reply) -> float | None:
    """The geometric mean of the probabilities of a reply's tokens; None where the backend gives no logprobs, or none that are.

    >>> confidence_of(Reply(text="yes", logprobs=(-0.25, -0.75)))
    0.6065306597126334
    """
    if not reply.logprobs:
        return None
    mean = sum(reply.logprobs) / len(reply.logprobs)
    return None if math.isnan(mean) else math.exp(min(mean, 0.0))  # servers round, and -0.0 may come as 1e-7


def calibration(
    confidences: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 10,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> Calibration:
    """Compare confidences (0 to 1) with what was right (0 or 1), in bins of equal width.

    Intervals are basic bootstrap intervals over answers, or over `groups` of them, cut to what is possible. The basic one because
    resampling adds to ECE's upward bias, which a percentile interval would count twice. Raises ValueError for numbers outside
    [0, 1] and lengths that differ, NotEnoughData below two answers (or groups).

    >>> found = calibration([0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0])
    >>> round(found.ece, 3), round(found.brier, 3), found.auroc
    (0.1, 0.135, 0.8333333333333334)
    """
    said, right = _checked(confidences, correct, bins, level)
    codes = _codes(groups, said.size)
    draws = _draws(codes, seed)
    auroc = _auroc(said, right)
    return Calibration(
        ece=_ece(said, right, bins),
        ece_interval=_interval(lambda one: _ece(said[one], right[one], bins), draws, _ece(said, right, bins), level),
        brier=_brier(said, right),
        brier_interval=_interval(lambda one: _brier(said[one], right[one]), draws, _brier(said, right), level),
        auroc=auroc,
        auroc_interval=None
        if auroc is None
        else _interval(lambda one: _auroc(said[one], right[one]), draws, auroc, level),
        accuracy=float(right.mean()),
        confidence=float(said.mean()),
        table=_table(said, right, bins),
        n=said.size,
    )


def _checked(confidences: npt.ArrayLike, correct: npt.ArrayLike, bins: int, level: float) -> tuple[Floats, Floats]:
    said, right = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if said.ndim != 1 or said.shape != right.shape:
        raise ValueError(
            f"wanted a confidence and an outcome of each answer, not shapes {said.shape} and {right.shape}"
        )
    if not ((said >= 0) & (said <= 1)).all():
        raise ValueError("a confidence is a number from 0 to 1")
    if not np.isin(right, (0, 1)).all():
        raise ValueError("an outcome is 0 (wrong) or 1 (right)")
    if bins < 1 or not 0 < level < 1:
        raise ValueError(f"bins={bins} and level={level}: at least one bin, and a level between 0 and 1")
    if said.size < 2:
        raise NotEnoughData(f"{said.size} answers: calibration needs at least 2")
    return said, right


def _codes(groups: Sequence[Hashable] | None, n: int) -> npt.NDArray[np.intp]:
    if groups is None:
        return np.arange(n)
    if len(groups) != n:
        raise ValueError(f"{len(groups)} groups for {n} answers: give one for each")
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(one, len(numbers)) for one in groups])
    if len(numbers) < 2:
        raise NotEnoughData("1 group: intervals need at least 2")
    return codes


def _draws(codes: npt.NDArray[np.intp], seed: int) -> list[npt.NDArray[np.intp]]:
    """Positions of the answers in each resample of groups."""
    generator, count = np.random.default_rng(seed), int(codes.max()) + 1
    if count == codes.size:
        return [generator.integers(count, size=count) for _ in range(RESAMPLES)]
    members = [np.flatnonzero(codes == code) for code in range(count)]
    return [np.concatenate([members[one] for one in generator.integers(count, size=count)]) for _ in range(RESAMPLES)]


def _interval(
    statistic: Callable[[npt.NDArray[np.intp]], float | None],
    draws: list[npt.NDArray[np.intp]],
    observed: float,
    level: float,
) -> Interval | None:
    values = np.array([value for one in draws if (value := statistic(one)) is not None])
    if np.ptp(values) <= 1e-12:
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    ends = (max(0.0, 2 * observed - float(high)), min(1.0, 2 * observed - float(low)))
    return Interval(low=ends[0], high=ends[1], level=level, method="bootstrap-basic")


def _bins(said: Floats, bins: int) -> npt.NDArray[np.intp]:
    """(0, 0.1], (0.1, 0.2], ...; 0 belongs to the first."""
    return np.clip(np.ceil(said * bins - 1e-12).astype(np.intp) - 1, 0, bins - 1)


def _ece(said: Floats, right: Floats, bins: int) -> float:
    gaps = np.bincount(_bins(said, bins), weights=right - said, minlength=bins)
    return float(np.abs(gaps).sum() / said.size)


def _brier(said: Floats, right: Floats) -> float:
    return float(((said - right) ** 2).mean())


def _auroc(said: Floats, right: Floats) -> float | None:
    positive = right == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        return None
    _, inverse, counts = np.unique(said, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    return float((middle[inverse][positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _table(said: Floats, right: Floats, bins: int) -> tuple[ReliabilityBin, ...]:
    where = _bins(said, bins)
    rows = []
    for number in range(bins):
        inside = where == number
        n = int(inside.sum())
        means = (float(said[inside].mean()), float(right[inside].mean())) if n else (None, None)
        rows.append(ReliabilityBin(number / bins, (number + 1) / bins, n, *means))
    return tuple(rows)
