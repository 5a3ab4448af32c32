"""Redaction of what detectors found: masked, in part, by a numbered placeholder, or by a keyed hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from pytest_crucible.detectors.found_values import Exchange, keep_to_itself
from pytest_crucible.detectors.numbers import GetNumber, LocalNumbers
from pytest_crucible.records.detections import Span

Redaction = Literal["mask", "partial", "placeholder", "hash"]
REDACTIONS: tuple[str, ...] = get_args(Redaction)
# Characters of a value that `partial` leaves at each end, and the shortest value of which it leaves any.
_LEFT_AT_START, _LEFT_AT_END, _SHORTEST_PARTIAL = 1, 4, 10
_HASH_DIGITS = 12
# The sixteen digits of a hash as letters: twelve decimal digits in a row would be taken for a telephone number.
_AS_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans that do not overlap, in order of place. Overlapping ones become one, of the type of the longest.

    >>> merge_spans([Span("URL", 0, 20), Span("IP_ADDRESS", 7, 16)])
    [Span(type='URL', start=0, end=20)]
    """
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged.pop()
            kind = span.type if span.end - span.start > longest else last.type
            longest = max(longest, span.end - span.start)
            merged.append(Span(kind, last.start, max(last.end, span.end)))
        else:
            merged.append(span)
            longest = span.end - span.start
    return merged


@dataclass(frozen=True, slots=True)
class RunRedaction:
    """The key of the hashes and the numbers of the placeholders that all redactions of one run share."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """Of hashes; a new one for each run, so that hashes of two runs cannot be joined."""
    number: GetNumber = field(default_factory=LocalNumbers)
    exchange: Exchange = keep_to_itself
    """Passes values that were found to the other processes of the run."""
    process: str = ""
    """Part of placeholders where another process may give equal numbers to other values."""


class Redactor:
    """Replaces spans of texts. Equal values of a run get equal placeholders and hashes. Callable from any thread."""

    def __init__(self, how: Redaction, run: RunRedaction | None = None, canonical: Callable[[str], str] = str) -> None:
        """`canonical` returns a value as it is compared: those that it makes equal are equal."""
        self.how, self._canonical = how, canonical
        self._run = run or RunRedaction()

    def __call__(self, text: str, spans: Iterable[Span]) -> str:
        parts, end = [], 0
        for span in merge_spans(spans):
            parts += [text[end : span.start], self._replace(span.type, text[span.start : span.end])]
            end = span.end
        return "".join((*parts, text[end:])) if parts else text

    def _replace(self, kind: str, value: str) -> str:
        if self.how == "mask":
            return "*" * len(value)
        if self.how == "partial":
            left = len(value) - _LEFT_AT_START - _LEFT_AT_END
            is_long = len(value) >= _SHORTEST_PARTIAL
            return value[:_LEFT_AT_START] + "*" * left + value[-_LEFT_AT_END:] if is_long else "*" * len(value)
        value = self._canonical(value)
        if self.how == "hash":
            digest = hmac.new(self._run.key, value.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
            return f"<{kind}:{digest[:_HASH_DIGITS].translate(_AS_LETTERS)}>"
        process = f"_{self._run.process}" if self._run.process else ""
        return f"<{kind}{process}_{self._run.number(kind, value)}>"
