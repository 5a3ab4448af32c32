"""Topics of texts: TF-IDF weights, and spherical k-means on them (Dhillon & Modha 2001, Machine Learning 42:143)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes

TOPICS = 8
# Words beyond these are rare, and a dense table of them would not fit.
_MOST_WORDS = 200
_ROUNDS = 10
_STARTS = 2
_WORD = re.compile(r"[^\W\d_]{3,}")
# Words in one of three texts do not distinguish topics.
_COMMON = 1 / 3
_FEWEST = 5


def find_topics(texts: Sequence[str], *, topics: int = TOPICS, seed: int = 0) -> tuple[Codes, tuple[str, ...]]:
    """Return the topic of each text, and the three words that name each topic. No topic at all for texts without words.

    >>> codes, names = find_topics(["red apple"] * 9 + ["blue fish"] * 9 + ["green hill"] * 9 + ["old boat"] * 9, topics=4)
    >>> len(set(codes[:9].tolist())), len(names)
    (1, 4)
    """
    words, weights = _tf_idf(texts)
    if not words:
        return np.full(len(texts), -1, dtype=np.intp), ()
    centres = _k_means(weights, min(topics, len(texts)), np.random.default_rng(seed))
    codes = np.argmax(weights @ centres.T, axis=1)
    # A text without a known word is similar to no other.
    codes = np.where(weights.any(axis=1), codes, -1)
    names = tuple(", ".join(words[at] for at in np.argsort(-centre, kind="stable")[:3]) for centre in centres)
    return codes.astype(np.intp), names


def _tf_idf(texts: Sequence[str]) -> tuple[list[str], Array]:
    counted = [Counter(_WORD.findall(text.lower())) for text in texts]
    frequencies = Counter(word for counts in counted for word in counts)
    usable = [(n, word) for word, n in frequencies.items() if _FEWEST <= n <= _COMMON * len(texts)]
    words = [word for _, word in sorted(usable, key=lambda item: (-item[0], item[1]))[:_MOST_WORDS]]
    places = {word: place for place, word in enumerate(words)}
    weights = np.zeros((len(texts), len(words)))
    for row, counts in enumerate(counted):
        for word in counts.keys() & places.keys():
            weights[row, places[word]] = (1 + np.log(counts[word])) * np.log(len(texts) / frequencies[word])
    return words, _unit_rows(weights)


def _unit_rows(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def _k_means(rows: Array, count: int, rng: np.random.Generator) -> Array:
    """Return the centres of the best of a few starts."""
    best, centres = -np.inf, rows[:count]
    for _ in range(_STARTS):
        tried = _converge(rows, rows[rng.choice(len(rows), size=count, replace=False)])
        fit = float((rows @ tried.T).max(axis=1).sum())
        if fit > best:
            best, centres = fit, tried
    return centres


def _converge(rows: Array, centres: Array) -> Array:
    codes = np.full(len(rows), -1)
    for _ in range(_ROUNDS):
        nearest = np.argmax(rows @ centres.T, axis=1)
        if np.array_equal(nearest, codes):
            break
        codes = nearest
        member = np.eye(len(centres))[codes]
        sums = member.T @ rows
        centres = np.where(sums.any(axis=1, keepdims=True), _unit_rows(sums), centres)
    return centres
