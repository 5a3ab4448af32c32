"""Training rows as texts, and the samples of a dataset that rows of a file match."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.datasets.columns import text_of
from pytest_crucible.datasets.contamination.matching import (
    NEAR_MATCH,
    Matcher,
    SampleText,
    TrainingText,
    answer_text,
    read_training_rows,
)
from pytest_crucible.datasets.packed import iterate_fields
from pytest_crucible.records import Sample
from pytest_crucible.records.contamination import Overlap
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.serialize import from_plain, to_plain

# Changed whenever a match is defined in another way, so that older results are not used.
_VERSION = 1


def compare_with_file(
    samples: Sequence[Sample],
    path: Path,
    *,
    dataset_sha256: str,
    name: str = "",
    near: float = NEAR_MATCH,
    cache: Path | None = None,
    sha256: str = "",
) -> Overlap:
    """Return the samples that rows of a file match. A file that is missing, unreadable or changed is a problem, not clean.

    `sha256` is the hash that the file must have; `cache` is the folder of earlier results.
    """
    label = name or str(path)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = "it does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        return Overlap(file=label, sha256=sha256, problem=reason, samples=len(samples), near=near)
    if sha256 and digest != sha256:
        return Overlap(
            file=label, sha256=sha256, problem="it has changed since the training", samples=len(samples), near=near
        )
    key = hashlib.sha256(f"{_VERSION}|{dataset_sha256}|{digest}|{near!r}".encode()).hexdigest()
    stored = _load(cache, key)
    if stored is not None:
        return stored.with_name(label)
    try:
        overlap = compare_with_rows(samples, read_training_rows(path), file=label, sha256=digest, near=near)
    except DatasetError as error:
        return Overlap(file=label, sha256=digest, problem=str(error), samples=len(samples), near=near)
    _store(cache, key, overlap)
    return overlap


def compare_with_rows(
    samples: Sequence[Sample], rows: Iterable[TrainingText], *, file: str, sha256: str = "", near: float = NEAR_MATCH
) -> Overlap:
    """Return the samples that rows match."""
    matcher = Matcher(sample_texts(samples), near)
    matcher.add_rows(rows)
    return matcher.result(file, sha256)


def sample_texts(samples: Sequence[Sample]) -> list[SampleText]:
    """Return the compared parts of each sample: its input, its answer and its group."""
    return [
        SampleText(name, text_of(text), answer_text(expected), group)
        for name, text, expected, group, _ in iterate_fields(samples)
    ]


def _load(cache: Path | None, key: str) -> Overlap | None:
    if cache is None:
        return None
    try:
        return from_plain(Overlap, json.loads((cache / f"{key}.json").read_text(encoding="utf-8")))
    # A damaged entry counts as missing.
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _store(cache: Path | None, key: str, overlap: Overlap) -> None:
    """Write an entry, by renaming: two processes may write it at a time. A folder that cannot be written costs only time."""
    if cache is None:
        return
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        draft = cache / f".{key}.{os.getpid()}"
        draft.write_text(json.dumps(to_plain(overlap)), encoding="utf-8")
        draft.replace(cache / f"{key}.json")


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


def open_embed() -> Callable[[Sequence[str]], Any]:
    """Return a function from texts to vectors of length 1, shape (n, 384). Raises SpecError without the extra."""
    from pytest_crucible.metrics.models.embeddings import EmbeddingScorer

    scorer = EmbeddingScorer(root=Path.cwd())
    return lambda texts: asyncio.run(scorer.embed(list(texts)))
