"""Samples whose embeddings are near those of a training row: paraphrases, which share few words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.datasets.overlap.matching import SampleText
from pytest_crucible.datasets.overlap.training_rows import TrainingText

LEAST_COSINE = 0.9
"""Paraphrases have cosines of about 0.9 and more under MiniLM; sentences on one topic have about 0.6."""
# Rows that are embedded at a time: their cosines with 10,000 samples take 160 MB.
_CHUNK = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A sample and the training row whose embedding is nearest."""

    sample: str
    row: int
    cosine: float


def find_similar_embeddings(
    samples: Sequence[SampleText],
    rows: Iterable[TrainingText],
    embed: Callable[[Sequence[str]], Any],
    least: float = LEAST_COSINE,
) -> list[Similar]:
    """Return the samples with a row of a cosine of at least `least`, the most similar first."""
    if not samples:
        return []
    vectors = np.asarray(embed([sample.text for sample in samples]))
    best, of_row = np.full(len(samples), -np.inf), np.zeros(len(samples), dtype=np.int64)
    iterator = iter(rows)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        texts = [(row.number, text) for row in chunk for text in row.texts]
        cosines = vectors @ np.asarray(embed([text for _, text in texts])).T
        nearest = cosines.argmax(axis=1)
        values = cosines[np.arange(len(samples)), nearest]
        numbers = np.array([number for number, _ in texts])[nearest]
        of_row, best = np.where(values > best, numbers, of_row), np.maximum(values, best)
    similar = [
        Similar(sample=samples[k].id, row=int(of_row[k]), cosine=round(float(best[k]), 4))
        for k in np.flatnonzero(best >= least).tolist()
    ]
    return sorted(similar, key=lambda entry: (-entry.cosine, entry.sample))
