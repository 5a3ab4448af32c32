"""Exact match and F1 as defined by SQuAD's evaluation script."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_normalise(text: str) -> str:
    """Lower the case, delete ASCII punctuation and the articles a, an, the, and collapse white space, in this order.

    >>> squad_normalise("The  Eiffel-Tower, a tower")
    'eiffeltower tower'
    """
    # The order matters: "the-cat" loses its hyphen first and then keeps its article, as in the script.
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def squad_f1_of(answer: str, expected: str) -> float:
    """Return F1 of the words of two texts, as multisets, after normalisation. Without words: 1 if both have none, else 0.

    >>> round(squad_f1_of("the cat sat down", "a cat sat"), 4), squad_f1_of("no no no no", "no")
    (0.8, 0.4)
    """
    words, expected_words = squad_normalise(answer).split(), squad_normalise(expected).split()
    if not (words and expected_words):
        return float(words == expected_words)
    common = sum((Counter(words) & Counter(expected_words)).values())
    return 2 * common / (len(words) + len(expected_words))


def _best(score: Callable[[str, str], float], reply: Reply, sample: Sample) -> float | NotApplicable:
    """Return the best score over the expected answers. An empty list is a question without an answer, as in SQuAD 2.0."""
    expected = sample.expected
    if expected is None:
        return NO_EXPECTED
    rights = [str(answer) for answer in expected] if isinstance(expected, list | tuple) else [str(expected)]
    return max(score(reply.text, right) for right in rights or [""])


@metric(kind="binary", version="1")
def squad_exact_match(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The reply is the expected answer, or one of several, after SQuAD's normalisation."""
    best = _best(lambda said, right: squad_normalise(said) == squad_normalise(right), reply, sample)
    return best if isinstance(best, NotApplicable) else bool(best)


@metric(bounds=(0, 1), version="1")
def squad_f1(reply: Reply, sample: Sample) -> float | NotApplicable:
    """F1 of the words of reply and expected answer (the best of several), after SQuAD's normalisation."""
    return _best(squad_f1_of, reply, sample)
