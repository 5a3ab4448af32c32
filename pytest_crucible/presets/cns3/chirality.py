"""Chirality: the distance of c1 from the gold claim, in a measure that Thinker calls Fisher-Rao, as one number.

The distance is a diagonal Mahalanobis distance between embeddings. Thinker takes the variances from the gold claims of the same
batch, so that a sample's value depends on the other samples; here they are frozen, and their hash is part of the metric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.metrics.models.protocol import SimilarityScorer
from pytest_crucible.presets.cns3.reference import JITTER, frozen_variances


@dataclass(frozen=True, slots=True)
class Chirality:
    """The value and its parts."""

    value: float
    distance: float
    overlap: float
    conflict: bool


def chirality(distance: float, overlap: float, conflict: bool) -> float:
    """min(1, 0.6 d / (d + 1) + 0.2 (1 - overlap) + 0.25 if the polarity conflicts).

    >>> round(chirality(22.64, 0.6, False), 4), round(chirality(34.748, 1, True), 4)
    (0.6546, 0.8332)
    """
    share = min(max(overlap, 0.0), 1.0)
    return min(1.0, 0.6 * distance / (distance + 1) + 0.2 * (1 - share) + (0.25 if conflict else 0.0))


def variances(embeddings: np.ndarray) -> np.ndarray:
    """Return the population variance of each dimension over texts (n, d), plus JITTER."""
    return np.asarray(embeddings.var(axis=0) + JITTER)


def distance(first: np.ndarray, second: np.ndarray, variance: np.ndarray) -> float:
    """Return sqrt(sum (a - b)^2 / variance)."""
    return float(np.sqrt(np.sum((first - second) ** 2 / variance)))


async def measure_chirality(
    scorer: SimilarityScorer, text: str, gold: str, *, overlap: float | None, conflict: bool
) -> Chirality | NotApplicable:
    """Measure chirality against the scorer's frozen variances. Without a gold document nothing is left out: overlap 1."""
    variance = frozen_variances(scorer.identity)
    if variance is None:
        return NotApplicable(f"there are no frozen reference statistics for scorer {scorer.identity!r}")
    if not text:
        return NotApplicable("the reply has no central claim")
    claim, gold_claim = await scorer.embed([text, gold])
    gap, share = distance(claim, gold_claim, variance), 1.0 if overlap is None else overlap
    return Chirality(chirality(gap, share, conflict), gap, share, conflict)
