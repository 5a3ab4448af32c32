"""Samples that training rows match: equal, containing, similar, or of one group."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pytest_crucible.datasets.overlap.duplicates import normalise_text
from pytest_crucible.datasets.overlap.sequences import SequenceIndex
from pytest_crucible.datasets.overlap.similar_sets import SimilarSets
from pytest_crucible.datasets.overlap.training_rows import TrainingText
from pytest_crucible.datasets.overlap.words import Encoded, Vocabulary, split_words
from pytest_crucible.records.contamination import How, Match, Overlap

NEAR_MATCH = 0.8
"""One changed word among nine: 8 of 10 different words are common."""
# Samples with such a row are counted, but only near ones are matches.
SIMILAR = 0.5
LONG, SHORT = 13, 8
"""Words of a sequence: 13 as Brown et al. (2020) count contamination, 8 as Chowdhery et al. (2022)."""
_ORDER: tuple[How, ...] = ("exact", "long", "near", "group")
# Rows that are encoded at a time: the arrays of 4,000 rows of 50 words take some MB, and stay in the processor's cache.
_CHUNK = 4000


class SampleText(NamedTuple):
    """The parts of a sample that are compared."""

    id: str
    text: str
    answer: str | None
    group: str | None


class _RowMatch(NamedTuple):
    how: How
    row: int
    similarity: float

    def is_stronger(self, other: _RowMatch) -> bool:
        return (_ORDER.index(self.how), -self.similarity, self.row) < (
            _ORDER.index(other.how), -other.similarity, other.row,
        )  # fmt: skip


class Matcher:
    """Compares samples with training rows, which are read once, a few thousand at a time."""

    def __init__(self, samples: Sequence[SampleText], near: float = NEAR_MATCH) -> None:
        """`near` is the Jaccard similarity from which on a row matches, from 0.5 to 1."""
        self._samples, self._near = samples, near
        words = [split_words(sample.text) for sample in samples]
        self._vocabulary = Vocabulary(words)
        self._similar_index = SimilarSets(words, self._vocabulary, min(SIMILAR, near))
        self._long_index = SequenceIndex(words, self._vocabulary, LONG)
        self._short_index = SequenceIndex(words, self._vocabulary, SHORT)
        self._too_short = sum(len(of_sample) < SHORT for of_sample in words)
        self._equal: dict[str, list[int]] = {}
        self._groups: dict[str, list[int]] = {}
        for position, sample in enumerate(samples):
            self._equal.setdefault(normalise_text(sample.text), []).append(position)
            if sample.group is not None:
                self._groups.setdefault(sample.group, []).append(position)
        self._equal.pop("", None)
        self._answers = [None if sample.answer is None else normalise_text(sample.answer) for sample in samples]
        self._best: dict[tuple[int, bool], _RowMatch] = {}
        self._similar = np.zeros(len(samples), dtype=bool)
        self._similar_near = np.zeros(len(samples), dtype=bool)
        self._shared = np.zeros(len(samples), dtype=bool)
        self._rows = 0

    def add_rows(self, rows: Iterable[TrainingText]) -> None:
        """Compare further rows."""
        for chunk in _chunks(rows):
            self._rows += len(chunk)
            self._add_equal(chunk)
            texts = [split_words(text) for row in chunk for text in row.texts]
            of_row = np.repeat(np.arange(len(chunk)), [len(row.texts) for row in chunk])
            if not texts:
                continue
            encoded = self._vocabulary.encode(texts)
            self._add_similar(chunk, of_row, encoded)
            self._add_long(chunk, of_row, encoded)
            self._shared[self._short_index.find(encoded).indexed] = True

    def result(self, file: str, sha256: str = "") -> Overlap:
        """Return the matches with all rows so far."""
        # A row with the sample's own answer, or with an unknown one, counts before those with another answer.
        matches = {}
        for (position, is_other), match in sorted(self._best.items(), reverse=True):
            matches[position] = Match(
                position=position,
                sample=self._samples[position].id,
                how=match.how,
                row=match.row,
                similarity=round(match.similarity, 4),
                other_answer=is_other,
            )
        return Overlap(
            file=file,
            sha256=sha256,
            rows=self._rows,
            samples=len(self._samples),
            matches=tuple(matches[position] for position in sorted(matches)),
            similar=int(self._similar.sum()),
            similar_near=int(self._similar_near.sum()),
            shared=int(self._shared.sum()),
            too_short=self._too_short,
            near=self._near,
        )

    def _add_equal(self, chunk: Sequence[TrainingText]) -> None:
        equal, groups = self._equal, self._groups
        for row in chunk:
            for text in row.texts:
                positions = equal.get(normalise_text(text))
                if positions is not None:
                    self._add(positions, _RowMatch("exact", row.number, 1.0), row)
            if row.group is not None and row.group in groups:
                self._add(groups[row.group], _RowMatch("group", row.number, 1.0), row)

    def _add_similar(self, chunk: Sequence[TrainingText], of_row: np.ndarray, encoded: Encoded) -> None:
        for pairs in self._similar_index.find(encoded):
            self._similar[pairs.indexed[pairs.similarities >= SIMILAR - 1e-9]] = True
            near = pairs.similarities >= self._near - 1e-9
            self._similar_near[pairs.indexed[near]] = True
            for text, position, similarity in zip(
                pairs.texts[near].tolist(), pairs.indexed[near].tolist(), pairs.similarities[near].tolist(), strict=True
            ):
                row = chunk[of_row[text]]
                self._add([position], _RowMatch("near", row.number, similarity), row)

    def _add_long(self, chunk: Sequence[TrainingText], of_row: np.ndarray, encoded: Encoded) -> None:
        shared = self._long_index.find(encoded)
        if not len(shared.texts):
            return
        # A row contains a sequence once, in whichever of its texts.
        keys = np.unique(
            np.stack([of_row[shared.texts], shared.indexed, shared.sequences], axis=1), axis=0, return_counts=False
        )
        pairs, counts = np.unique(keys[:, :2], axis=0, return_counts=True)
        shares = counts / self._long_index.counts[pairs[:, 1]]
        for (number, position), share in zip(pairs.tolist(), shares.tolist(), strict=True):
            if share >= 0.5:
                row = chunk[number]
                self._add([position], _RowMatch("long", row.number, share), row)

    def _add(self, positions: Sequence[int], match: _RowMatch, row: TrainingText) -> None:
        answer = None if row.answer is None else normalise_text(row.answer)
        for position in positions:
            own = self._answers[position]
            key = (position, own is not None and answer is not None and own != answer)
            best = self._best.get(key)
            if best is None or match.is_stronger(best):
                self._best[key] = match


def _chunks(rows: Iterable[TrainingText]) -> Iterator[list[TrainingText]]:
    iterator = iter(rows)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk
