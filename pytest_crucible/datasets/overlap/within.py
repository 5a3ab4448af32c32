"""Texts of one dataset that repeat each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_crucible.datasets.overlap.duplicates import normalise_text
from pytest_crucible.datasets.overlap.similar_sets import SimilarSets
from pytest_crucible.datasets.overlap.words import Numbers, Vocabulary, split_words

# Texts that are looked up at a time, which bounds the memory for pairs.
_CHUNK = 4000


def find_equal(texts: Sequence[str]) -> Numbers:
    """Return the positions of all texts that are equal to another one after normalising; empty texts are not compared.

    >>> find_equal(["Two plus two?", "two  plus two?", "three"]).tolist()
    [0, 1]
    """
    positions: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        positions.setdefault(normalise_text(text), []).append(position)
    positions.pop("", None)
    return np.array(sorted(k for group in positions.values() if len(group) > 1 for k in group), dtype=np.int64)


def find_similar(texts: Sequence[str], least: float) -> Numbers:
    """Return the positions of all texts that have a Jaccard similarity of at least `least` with another one.

    >>> find_similar(["a b c d e f g h i x", "a b c d e f g h i y", "z"], 0.8).tolist()
    [0, 1]
    """
    words = [split_words(text) for text in texts]
    vocabulary = Vocabulary(words)
    index = SimilarSets(words, vocabulary, least)
    is_similar = np.zeros(len(texts), dtype=bool)
    for start in range(0, len(texts), _CHUNK):
        for pairs in index.find(vocabulary.encode(words[start : start + _CHUNK])):
            others = pairs.texts + start != pairs.indexed
            is_similar[pairs.indexed[others]] = True
    return np.flatnonzero(is_similar)
