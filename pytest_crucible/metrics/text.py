"""Metrics that read a reply as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

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


def matches(pattern: str, *, name: str = "matches", flags: int = 0) -> Metric:
    """A metric that is true when the regular expression is found anywhere in the reply.

    >>> matches(r"^yes\\b", flags=re.IGNORECASE)(Reply(text="Yes."), Sample(id="1", input=""))
    True
    """
    compiled = re.compile(pattern, flags)

    @metric(name=name, kind="binary", version=f"1:{flags}:{pattern}")
    def found(reply: Reply, sample: Sample) -> bool:
        return compiled.search(reply.text) is not None

    return found
