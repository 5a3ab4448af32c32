"""Texts as TF-IDF vectors of length 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from pytest_crucible.datasets.overlap.words import Vocabulary, split_words


def tfidf_vectors(texts: Sequence[str]) -> sparse.csr_matrix:
    """Return a row of unit length for each text; 0 for a text without words.

    The weight of a word is tf (ln((1 + n) / (1 + df)) + 1), as scikit-learn's smooth idf.
    """
    words = [split_words(text) for text in texts]
    vocabulary = Vocabulary(words)
    encoded = vocabulary.encode(words)
    shape = (len(texts), max(len(vocabulary), 1))
    counts = sparse.csr_matrix((np.ones(len(encoded.words)), (encoded.texts, encoded.words)), shape=shape)
    counts.sum_duplicates()
    frequency = np.bincount(counts.indices, minlength=shape[1])
    weighted = counts @ sparse.diags(np.log((1 + len(texts)) / (1 + frequency)) + 1)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.where(lengths > 0, lengths, 1)) @ weighted)
