"""TF-IDF cosine: a lexical stand-in for similarity, under a name of its own."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(r"\w+")


def tfidf_cosine(first: str, second: str, corpus: Iterable[str]) -> float:
    """Return the cosine with weights ln((1 + n) / (1 + df)) + 1 (scikit-learn's smooth idf); n and df count all texts.

    The corpus is the sample's own, so that a sample's value does not depend on other samples. 0 if a text has no word.

    >>> round(tfidf_cosine("Tea shortens colds.", "Tea shortens the flu.", ["Colds are common.", "Tea is hot."]), 4)
    0.4602
    """
    left, right = _counts(first), _counts(second)
    texts = [left.keys(), right.keys(), *(_counts(text).keys() for text in corpus)]
    words = left.keys() | right.keys()
    weights = {word: math.log((1 + len(texts)) / (1 + sum(word in text for text in texts))) + 1 for word in words}
    product = sum(left[word] * right[word] * weights[word] ** 2 for word in left)
    lengths = [math.sqrt(sum((count * weights[word]) ** 2 for word, count in text.items())) for text in (left, right)]
    # Rounding may give 1.0000000000000002.
    return min(1.0, product / (lengths[0] * lengths[1])) if all(lengths) else 0.0


@lru_cache(maxsize=1024)
# Cached: each arm and repeat is scored against the same documents.
def _counts(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))
