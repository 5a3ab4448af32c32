"""The lexical stand-in for entailment, under a name of its own: how many words of the hypothesis the premise has."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"\w+")
_EMPTY_WORDS = frozenset(
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
    """Share of the hypothesis's words, without articles and the like, that occur in the premise; 0 where it has none.

    >>> overlap("Tea shortened colds in forty adults.", "Tea shortened the flu.")
    0.6666666666666666
    """
    wanted = _words(hypothesis)
    return len(wanted & _words(premise)) / len(wanted) if wanted else 0.0


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    """Every arm and repeat is scored against the same documents."""
    return frozenset(_WORD.findall(text.casefold())) - _EMPTY_WORDS
