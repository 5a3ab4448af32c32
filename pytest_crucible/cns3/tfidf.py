"""The lexical stand-in for similarity, under a name of its own: the cosine of two texts' words, rare ones weighing more."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(r"\w+")


def tfidf_cosine(one: str, other: str, corpus: Iterable[str]) -> float:
    """Counts weighed by ln((1 + n) / (1 + df)) + 1 (scikit-learn's smooth idf); n and df count both texts and the corpus.

    The corpus is the sample's own, so that no sample's value depends on the samples beside it. 0 where a text has no word.

    >>> round(tfidf_cosine("Tea shortens colds.", "Tea shortens the flu.", ["Colds are common.", "Tea is hot."]), 4)
    0.4602
    """
    left, right = _counts(one), _counts(other)
    texts = [left.keys(), right.keys(), *(_counts(text).keys() for text in corpus)]
    words = left.keys() | right.keys()
    weights = {word: math.log((1 + len(texts)) / (1 + sum(word in text for text in texts))) + 1 for word in words}
    product = sum(left[word] * right[word] * weights[word] ** 2 for word in left)
    lengths = [math.sqrt(sum((count * weights[word]) ** 2 for word, count in text.items())) for text in (left, right)]
    return min(1.0, product / (lengths[0] * lengths[1])) if all(lengths) else 0.0


@lru_cache(maxsize=1024)
def _counts(text: str) -> Counter[str]:
    """Every arm and repeat is scored against the same documents."""
    return Counter(_WORD.findall(text.casefold()))
