"""Redact each text once: a reply is stored by the cache, with its sample and in its calls, and sent again in later turns."""

from __future__ import annotations

import threading
from collections.abc import Callable

SHORTEST = 80
"""The fewest characters of a text that is stored and redacted only once.

Two copies of a shorter one take no more bytes than a row of its own and two references (`python -m benchmarks.store_bytes`), and
redacting it again takes no longer than remembering it.
"""
MOST_TEXTS = 2_000
"""Texts in one generation: more than the samples in flight have."""
MOST_CHARACTERS = 8_000_000
"""Characters of one generation: eight replies of the largest size."""


class RedactOnce:
    """A function that redacts a text, and remembers the latest ones. Callable from any thread."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        # Two generations, because removing single texts as they age would take longer than redacting a short one.
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}
        self._characters = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> str:
        if len(text) < SHORTEST:
            return self._hide(text) if text else text
        # By value, not identity: a later turn has earlier replies as copies.
        for generation in (self._young, self._old):
            if (redacted := generation.get(text)) is not None:
                return redacted
        redacted = self._hide(text)
        self._remember(text, redacted)
        return redacted

    def is_redacted(self, text: str) -> bool:
        """Return whether this function has returned the text, unchanged or not."""
        return any(generation.get(text) == text for generation in (self._young, self._old))

    def _remember(self, text: str, redacted: str) -> None:
        with self._lock:
            if len(self._young) >= MOST_TEXTS or self._characters >= MOST_CHARACTERS:
                self._young, self._old, self._characters = {}, self._young, 0
            self._young[text] = redacted
            self._characters += len(text)
            if redacted != text and len(redacted) >= SHORTEST:
                self._young[redacted] = redacted
                self._characters += len(redacted)
