"""Word sequences of a fixed length (n-grams) that texts share with those of an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.overlap.words import Encoded, Numbers, Vocabulary

Hashes = npt.NDArray[np.uint64]
# Fixed: equal texts have equal hashes in every run.
_SEED = 13
_TABLE = np.uint64(2**22 - 1)
"""The bits of a hash that are its place in a table of 4 MB."""


class Shared(NamedTuple):
    """Texts and indexed texts with common sequences, as parallel columns: one row for each pair and sequence."""

    texts: Numbers
    indexed: Numbers
    sequences: Numbers
    """The number of the sequence."""


class SequenceIndex:
    """An index of texts by their sequences of `length` words."""

    def __init__(self, texts: Sequence[Sequence[str]], vocabulary: Vocabulary, length: int) -> None:
        self.length = length
        draw = np.random.default_rng(_SEED)
        # A polynomial of random numbers modulo 2^64: two sequences collide with a probability of about 1 in 10^19.
        self._values = draw.integers(0, 2**64, size=max(len(vocabulary), 1), dtype=np.uint64)
        self._factors = draw.integers(0, 2**64, size=length, dtype=np.uint64) | np.uint64(1)
        hashes, of_text = self._hash(vocabulary.encode(texts))
        self._hashes, numbers = np.unique(hashes, return_inverse=True)
        self._table = np.zeros(int(_TABLE) + 1, dtype=bool)
        self._table[self._hashes & _TABLE] = True
        keys = np.unique(numbers * max(len(texts), 1) + of_text)
        sequences, self._postings = np.divmod(keys, max(len(texts), 1))
        self._starts = np.searchsorted(sequences, np.arange(len(self._hashes) + 1))
        self.counts: Numbers = np.bincount(self._postings, minlength=len(texts))
        """The number of different sequences of each indexed text."""

    def find(self, encoded: Encoded) -> Shared:
        """Return the sequences that texts share with indexed ones, each once for a pair of texts."""
        hashes, texts = self._hash(encoded)
        if not len(self._hashes) or not len(hashes):
            none = np.array([], dtype=np.int64)
            return Shared(none, none, none)
        # A look into a table rejects most hashes, which is ten times as fast as a search among all.
        maybe = self._table[hashes & _TABLE]
        hashes, texts = hashes[maybe], texts[maybe]
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        is_known = self._hashes[places] == hashes
        # A text may have a sequence several times.
        keys = np.unique(texts[is_known] * len(self._hashes) + places[is_known])
        texts, sequences = np.divmod(keys, len(self._hashes))
        counts = self._starts[sequences + 1] - self._starts[sequences]
        at = np.repeat(self._starts[sequences] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return Shared(np.repeat(texts, counts), self._postings[at], np.repeat(sequences, counts))

    def _hash(self, encoded: Encoded) -> tuple[Hashes, Numbers]:
        """Return the hash of each sequence without unknown words, and its text."""
        windows = len(encoded.words) - self.length + 1
        if windows <= 0:
            return np.array([], dtype=np.uint64), np.array([], dtype=np.int64)
        texts = encoded.texts
        unknown = np.concatenate([[0], np.cumsum(encoded.words < 0)])
        whole = (texts[:windows] == texts[self.length - 1 :]) & (unknown[self.length :] == unknown[:windows])
        begins = np.flatnonzero(whole)
        hashes = np.zeros(len(begins), dtype=np.uint64)
        for k, factor in enumerate(self._factors):
            hashes += self._values[encoded.words[begins + k]] * factor
        return hashes, texts[begins]
