"""Metrics that compare a reply as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError

NO_EXPECTED = NotApplicable("the sample has no expected answer")


def normalise(text: str) -> str:
    """Return Unicode NFKC, case folded, with white space collapsed and ends stripped. Punctuation stays.

    >>> normalise("  The\\n Answer ")
    'the answer'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


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


# Time limit: a pattern such as `(a+)+$` can take for ever on one reply; then the sample is lost for this metric.
MAX_SEARCH_S = 1.0


def matches(pattern: str, *, name: str = "matches", flags: int = 0) -> Metric:
    """Return a metric that is true if the regular expression is found anywhere in the reply.

    Patterns and flags are those of `re`; a search ends after a second. Raises SpecError for an invalid pattern.

    >>> matches(r"^yes\\b", flags=re.IGNORECASE)(Reply(text="Yes."), Sample(id="1", input=""))
    True
    """
    import regex  # takes longer to import than all metrics

    try:
        re.compile(pattern, flags)
        compiled = regex.compile(pattern, regex.VERSION0 | _flags(flags))
    except (re.error, regex.error) as error:
        raise SpecError(f"the pattern {pattern!r} of metric {name!r} is not a regular expression: {error}") from error

    @metric(name=name, kind="binary", version=f"1:{flags}:{pattern}")
    def is_found(reply: Reply, sample: Sample) -> bool:
        try:
            return compiled.search(reply.text, timeout=MAX_SEARCH_S) is not None
        except TimeoutError:
            raise TimeoutError(
                f"the pattern {pattern!r} took more than {MAX_SEARCH_S:g} s on a reply of {len(reply.text)} "
                "characters: write it without a repetition inside a repetition"
            ) from None

    return is_found


def _flags(flags: int) -> int:
    """Return the flags of `regex` with the same names: the two modules number some of them differently."""
    import regex

    names = ("ASCII", "IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "VERBOSE", "UNICODE")
    return sum(int(getattr(regex, name)) for name in names if flags & getattr(re, name))
