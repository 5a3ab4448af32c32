"""Redaction of what detectors found: masked, in part, by a numbered placeholder, or by a keyed hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterable
from typing import Literal, get_args

from pytest_crucible.records.detections import Span

Redaction = Literal["mask", "partial", "placeholder", "hash"]
REDACTIONS: tuple[str, ...] = get_args(Redaction)
# Characters of a value that `partial` leaves at each end, and the shortest value of which it leaves any.
_LEFT_AT_START, _LEFT_AT_END, _SHORTEST_PARTIAL = 1, 4, 10
_HASH_DIGITS = 12


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


class Redactor:
    """Replaces spans of texts. Equal values of a run get equal placeholders and hashes. Callable from any thread."""

    def __init__(self, how: Redaction, key: bytes | None = None) -> None:
        """`key` is the run's; without one a new key is drawn, so that hashes of two runs cannot be joined."""
        self.how = how
        self._key = secrets.token_bytes(32) if key is None else key
        self._numbers: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

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
        if self.how == "hash":
            digest = hmac.new(self._key, value.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
            return f"<{kind}:{digest[:_HASH_DIGITS]}>"
        return f"<{kind}_{self._number(kind, value)}>"

    def _number(self, kind: str, value: str) -> int:
        with self._lock:
            numbers = self._numbers.setdefault(kind, {})
            return numbers.setdefault(value, len(numbers) + 1)
