"""Metrics that compare a reply as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.patterns import compile_pattern, is_found, start_clock
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError

NO_EXPECTED = NotApplicable("the sample has no expected answer: fields={'expected': 'NAME'} names its field")


def normalise(text: str) -> str:
    """Return Unicode NFKC, case folded, with white space collapsed and ends stripped. Punctuation stays.

    >>> normalise("  The\\n Answer ")
    'the answer'
    """
    # ASCII has one normal form, and `lower` is then equal to `casefold`.
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split())


def _right_answers(sample: Sample) -> Iterable[str]:
    """Return the expected answers: one, or those of a list."""
    expected = sample.expected
    return map(str, expected) if isinstance(expected, list | tuple) else (str(expected),)


@metric(kind="binary", version="1")
def exact_match(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The normalised reply is the normalised expected answer (or one of several)."""
    if sample.expected is None:
        return NO_EXPECTED
    text = normalise(reply.text)
    return any(text == normalise(right) for right in _right_answers(sample))


@metric(kind="binary", version="1")
def contains_expected(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The normalised expected answer (or one of several) occurs in the normalised reply."""
    if sample.expected is None:
        return NO_EXPECTED
    text = normalise(reply.text)
    rights = [normalise(right) for right in _right_answers(sample)]
    # An empty text is contained in every reply.
    return any(right in text for right in rights if right)


def matches(pattern: str, *, name: str = "matches", flags: int = 0) -> Metric:
    """Return a metric that is true if the regular expression is found anywhere in the reply.

    Patterns and flags are those of `re`; a search ends after a second. Raises SpecError for an invalid pattern.

    >>> import re
    >>> matches(r"^yes\\b", flags=re.IGNORECASE)(Reply(text="Yes."), Sample(id="1", input=""))
    True
    """
    try:
        compile_pattern(pattern, flags)
    except SpecError as error:
        raise SpecError(f"metric {name!r}: {error}") from error

    @metric(name=name, kind="binary", version=f"1:{flags}:{pattern}")
    def match_pattern(reply: Reply, sample: Sample) -> bool:
        start_clock()
        return is_found(pattern, reply.text, flags)

    return match_pattern
