"""The ROC and the precision-recall curve of scores."""

from __future__ import annotations

import numpy as np

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
