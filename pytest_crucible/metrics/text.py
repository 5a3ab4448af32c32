"""Metrics that read a reply as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from pytest_crucible.errors import SpecError
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample

NO_EXPECTED = NotApplicable("the sample has no expected answer")


def normalise(text: str) -> str:
    """Unicode NFKC, case folded, runs of white space made one blank, ends stripped. Punctuation stays.

    >>> normalise("  The\\n Answer ")
    'the answer'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _accepted(sample: Sample) -> Iterable[str]:
    """The right answers: one, or any of a list."""
    expected = sample.expected
    return map(str, expected) if isinstance(expected, list | tuple) else (str(expected),)


@metric(kind="binary", version="1")
def exact_match(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The normalised reply is the normalised expected answer (or one of several)."""
    if sample.expected is None:
        return NO_EXPECTED
    said = normalise(reply.text)
    return any(said == normalise(right) for right in _accepted(sample))


@metric(kind="binary", version="1")
def contains_expected(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The normalised expected answer (or one of several) occurs in the normalised reply."""
    if sample.expected is None:
        return NO_EXPECTED
    said = normalise(reply.text)
    rights = [normalise(right) for right in _accepted(sample)]
    return any(right in said for right in rights if right)  # nothing is in every reply


LONGEST_SEARCH_S = 1.0
"""A pattern such as `(a+)+$` can take for ever on one reply: then the sample is lost for this metric."""


def matches(pattern: str, *, name: str = "matches", flags: int = 0) -> Metric:
    """A metric that is true when the regular expression is found anywhere in the reply.

    Patterns and flags are those of `re`; the search is ended after a second. Raises SpecError for a pattern that is none.

    >>> matches(r"^yes\\b", flags=re.IGNORECASE)(Reply(text="Yes."), Sample(id="1", input=""))
    True
    """
    import regex  # takes longer to import than all metrics

    try:
        re.compile(pattern, flags)
        compiled = regex.compile(pattern, regex.VERSION0 | _flags(flags))
    except (re.error, regex.error) as error:
        raise SpecError(f"the pattern {pattern!r} of metric {name!r} is no regular expression: {error}") from error

    @metric(name=name, kind="binary", version=f"1:{flags}:{pattern}")
    def found(reply: Reply, sample: Sample) -> bool:
        try:
            return compiled.search(reply.text, timeout=LONGEST_SEARCH_S) is not None
        except TimeoutError:
            raise TimeoutError(
                f"the pattern {pattern!r} took more than {LONGEST_SEARCH_S:g} s on a reply of {len(reply.text)} "
                "characters: write it without a repetition inside a repetition"
            ) from None

    return found


def _flags(flags: int) -> int:
    """The same flags by their names: the two modules number some of them differently."""
    import regex

    known = ("ASCII", "IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "VERBOSE", "UNICODE")
    return sum(int(getattr(regex, name)) for name in known if flags & getattr(re, name))
