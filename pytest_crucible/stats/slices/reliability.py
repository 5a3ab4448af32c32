"""Stated probabilities and outcomes: reliability in bins, calibration error without its bias, area under the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes

# As in the papers that defined the expected calibration error; another number gives another error.
BINS = 10
# A confidence such as 0.1 + 0.2, times 10, comes out just above 3 and would fall into the next bin.
_ROUNDING = 1e-12


def confidence_bins(confidence: Array) -> Codes:
    """Return the number of each confidence's bin, from 0; a confidence of 0 belongs to the first.

    >>> confidence_bins(np.array([0.0, 0.1, 0.11, 0.1 + 0.2, 1.0])).tolist()
    [0, 0, 1, 2, 9]
    """
    return np.clip(np.ceil(confidence * BINS - _ROUNDING).astype(np.intp) - 1, 0, BINS - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Samples with about the same stated probability."""

    n: int
    confidence: float
    """Mean of the stated probabilities."""
    rate: float
    """Share of positive outcomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Stated probabilities of some samples, with their outcomes."""

    n: int
    bins: tuple[Bin, ...]
    ece: float | None
    """Expected calibration error in ten bins of equal width, as the statistic `ece`; None without samples."""
    ece_debiased: float | None
    """The same without the bias of small bins."""
    auroc: float | None
    """None without samples of both outcomes."""


def reliability(confidence: Array, outcome: Array) -> Reliability:
    """Return the reliability of probabilities for outcomes of 0 and 1, one entry a sample.

    >>> reliability(np.array([0.2, 0.2, 0.9]), np.array([0.0, 0.0, 1.0])).auroc
    1.0
    """
    bins = tuple(_bins(confidence, outcome))
    return Reliability(
        n=len(confidence),
        bins=bins,
        ece=_mean_gap(bins, _gap),
        ece_debiased=_mean_gap(bins, _debiased_gap),
        auroc=_auroc(confidence, outcome),
    )


def _mean_gap(bins: Sequence[Bin], gap: Callable[[Bin], float]) -> float | None:
    n = sum(each.n for each in bins)
    return max(0.0, sum(each.n * gap(each) for each in bins) / n) if n else None


def _gap(each: Bin) -> float:
    return abs(each.rate - each.confidence)


def _bins(confidence: Array, outcome: Array) -> list[Bin]:
    numbers = confidence_bins(confidence)
    there = [numbers == number for number in range(BINS)]
    return [
        Bin(n=int(inside.sum()), confidence=float(confidence[inside].mean()), rate=float(outcome[inside].mean()))
        for inside in there
        if inside.any()
    ]


def _debiased_gap(each: Bin) -> float:
    """Return |rate - confidence| less its bias, were the rate normal around itself (Kumar, Liang & Ma 2019, section 5).

    A bin of few samples has a gap by chance alone.
    """
    # A session without a fairness section does not load scipy.
    from scipy.special import ndtr

    gap = _gap(each)
    deviation = math.sqrt(each.rate * (1 - each.rate) / each.n)
    if deviation == 0:
        return gap
    ratio = gap / deviation
    folded = deviation * math.sqrt(2 / math.pi) * math.exp(-ratio * ratio / 2) + gap * (1 - 2 * float(ndtr(-ratio)))
    return 2 * gap - folded


def _auroc(confidence: Array, outcome: Array) -> float | None:
    positives = int(outcome.sum())
    negatives = len(outcome) - positives
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    midranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    above = float(midranks[outcome == 1].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)
