"""Scores as classifiers: the ROC and the precision-recall curve, and thresholds with a bounded false-alarm rate.

The lowest threshold whose false-alarm rate is bounded: an order statistic of benign scores.
A text is flagged where its score is at least the threshold. With n benign texts and a threshold above the largest score but k, at
most k of them are false alarms. By the distribution-free tolerance limit (Wilks 1941, Ann. Math. Stat. 12:91) the true rate exceeds
p with probability at most P(Binomial(n, p) <= k), for any distribution of the scores; ties only make it smaller.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array


def roc_points(scores: Array, labels: Array) -> list[tuple[float, float]]:
    """Return the points (false-alarm rate, caught) of all thresholds, from (0, 0) to (1, 1)."""
    right, wrong = _cumulative(scores, labels)
    return [(0.0, 0.0), *zip((wrong / wrong[-1]).tolist(), (right / right[-1]).tolist(), strict=True)]


def precision_recall_points(scores: Array, labels: Array) -> list[tuple[float, float]]:
    """Return the points (recall, precision) of all thresholds."""
    right, wrong = _cumulative(scores, labels)
    return list(zip((right / right[-1]).tolist(), (right / (right + wrong)).tolist(), strict=True))


def _cumulative(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return, for each different score from the highest down, how many positives and negatives have at least that."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
    return np.cumsum(labels[order])[last], np.cumsum(1 - labels[order])[last]


CONFIDENCE = 0.95
# A threshold that is written with six digits; 0.3 times a million comes out just below 300,000.
_STEPS, _ROUNDING = 1_000_000, 1e-6


def benign_texts_needed(false_alarms: float, confidence: float = CONFIDENCE) -> int:
    """Return the smallest number of benign texts that can bound a false-alarm rate, without a single false alarm.

    >>> benign_texts_needed(0.01), benign_texts_needed(0.025)
    (299, 119)
    """
    return math.ceil(math.log(1 - confidence) / math.log(1 - false_alarms))


def smallest_rate(n: int, confidence: float = CONFIDENCE) -> float:
    """Return the smallest false-alarm rate that n benign texts can bound.

    >>> round(smallest_rate(120), 4)
    0.0247
    """
    return float(1 - (1 - confidence) ** (1 / n))


def allowed_alarms(n: int, false_alarms: float, confidence: float = CONFIDENCE) -> int | None:
    """Return how many of n benign texts may be flagged so that the rate is at most `false_alarms`; None if none may.

    >>> allowed_alarms(299, 0.01), allowed_alarms(1000, 0.01), allowed_alarms(298, 0.01)
    (0, 4, None)
    """
    from scipy.special import bdtr

    if bdtr(0, n, false_alarms) > 1 - confidence:
        return None
    low, high = 0, n
    # The largest k with P(Binomial(n, p) <= k) <= 1 - confidence, by bisection.
    while high - low > 1:
        middle = (low + high) // 2
        if bdtr(middle, n, false_alarms) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def choose_threshold(benign: npt.ArrayLike, false_alarms: float, confidence: float = CONFIDENCE) -> float | None:
    """Return the lowest threshold that flags at most the allowed number of benign scores; None if none can be had.

    `benign` are n scores. The threshold is the next multiple of 0.000001 above the (allowed + 1)-th largest of them, and may
    exceed 1.

    >>> choose_threshold([0.1] * 298 + [0.9], 0.01)
    0.900001
    """
    scores = np.sort(np.asarray(benign, dtype=np.float64))[::-1]
    allowed = allowed_alarms(scores.size, false_alarms, confidence)
    return None if allowed is None else (math.floor(scores[allowed] * _STEPS + _ROUNDING) + 1) / _STEPS
