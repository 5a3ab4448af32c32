"""Word overlap: a lexical stand-in for entailment, under a name of its own."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "that",
        "the",
        "to",
    ]
)


def overlap(premise: str, hypothesis: str) -> float:
    """Return the share of the hypothesis's words, without stop words, that occur in the premise; 0 if it has none.

    >>> overlap("Tea shortened colds in forty adults.", "Tea shortened the flu.")
    0.6666666666666666
    """
    words = _words(hypothesis)
    return len(words & _words(premise)) / len(words) if words else 0.0


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    # Cached: each arm and repeat is scored against the same documents.
    return frozenset(_WORD.findall(text.casefold())) - _STOP_WORDS
