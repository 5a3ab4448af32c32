"""The text of a reply in pieces: an incomplete character, and text that may become a stop, wait for the next token."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from pytest_crucible.local_model.tokens import Tokenizer


class TextPieces:
    """The text of one reply, in pieces."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._waiting = ""
        self.sent = ""

    def add(self, token: int) -> str:
        """Return the text that is certain after one more token."""
        self._waiting += self._decoder.decode(self._tokenizer.bytes_of([token]))
        held = max((_overlap(self._waiting, stop) for stop in self._stops), default=0)
        # A whole stop may be in the text: then its reply has ended, and `rest` gives what comes before it.
        if any(stop in self._waiting for stop in self._stops):
            return ""
        piece, self._waiting = self._waiting[: len(self._waiting) - held], self._waiting[len(self._waiting) - held :]
        self.sent += piece
        return piece

    def rest(self, text: str) -> str:
        """Return the rest of a reply's text."""
        return text[len(self.sent) :]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text that a stop begins with.

    >>> _overlap("one\\n", "\\n\\nUser:"), _overlap("one", "two")
    (1, 0)
    """
    return next((size for size in range(min(len(text), len(stop)), 0, -1) if text.endswith(stop[:size])), 0)
