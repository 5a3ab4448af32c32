"""Chirality and the distance in it, which Thinker calls Fisher-Rao: how far c1 is from the gold claim, in one number.

The distance is a diagonal Mahalanobis distance between embeddings. Thinker takes the variances from the gold claims of the very
batch, so that a sample's value depends on the samples beside it; here they are frozen, and their hash is part of the metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.scorers.protocol import SimilarityScorer

JITTER = 1e-6
"""Added to every variance, as Thinker does."""


@dataclass(frozen=True, slots=True)
class Chirality:
    """The number, and what it is made of."""

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
    """Of each dimension, over texts (n, d): population variance and a little more."""
    return np.asarray(embeddings.var(axis=0) + JITTER)


def distance(one: np.ndarray, other: np.ndarray, variance: np.ndarray) -> float:
    """sqrt(sum (a - b)^2 / variance)."""
    return float(np.sqrt(np.sum((one - other) ** 2 / variance)))


async def batch_distances(scorer: SimilarityScorer, said: Sequence[str], gold: Sequence[str]) -> list[float]:
    """Thinker's distances: variances from the gold claims of this batch, and the zero vector for an empty claim."""
    right = np.asarray(await scorer.embed(list(gold)))
    claims = np.asarray(await scorer.embed(list(said)))
    claims = np.where(np.array([bool(text) for text in said])[:, None], claims, 0.0)
    variance = variances(right)
    return [distance(one, other, variance) for one, other in zip(claims, right, strict=True)]


async def chirality_of(
    scorer: SimilarityScorer, said: str, gold: str, *, overlap: float | None, conflict: bool
) -> Chirality | NotApplicable:
    """Against the frozen variances of the scorer. Where there is no gold document, nothing is left out: the overlap is 1."""
    from pytest_crucible.cns3.reference import variances_of

    variance = variances_of(scorer.identity)
    if variance is None:
        return NotApplicable(f"there are no frozen reference statistics for scorer {scorer.identity!r}")
    if not said:
        return NotApplicable("the reply has no central claim")
    one, other = await scorer.embed([said, gold])
    apart, share = distance(one, other, variance), 1.0 if overlap is None else overlap
    return Chirality(chirality(apart, share, conflict), apart, share, conflict)
