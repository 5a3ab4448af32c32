"""Redaction of everything that is written to the store: each text once, ids with a hash, and every value of a statement."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_crucible.records.redaction import HIDDEN
from pytest_crucible.records.secret_settings import hide_encoded
from pytest_crucible.store.database import Database
from pytest_crucible.store.schema import store_key

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


_BYTES = 32


def read_store_key(database: Database) -> bytes:
    """Return the store's key. The first reader draws it."""
    query = "SELECT key FROM store_key"
    with database.connect() as connection:
        key = connection.scalar(query)
        if key is None:
            connection.insert(store_key, [{"id": 1, "key": secrets.token_bytes(_BYTES)}])
            # Another process may have been first.
            key = connection.scalar(query)
    return bytes(key)


DIGITS = 12
"""Of the keyed hash. Among a thousand hidden ids, two are alike in one of 500 million stores."""


class IdRedactor:
    """Redacts ids. `key` is the store's: reports show the hash, which without it cannot be compared with guesses."""

    def __init__(self, hide: Callable[[str], str], key: bytes) -> None:
        self._hide, self._key = hide, key

    def __call__(self, text: str) -> str:
        redacted = self._hide(text)
        if redacted == text or HIDDEN not in redacted:
            return redacted
        digest = hmac.new(self._key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
        return f"{redacted} {digest[:DIGITS]}"


class ParameterRedactor:
    """Redacts the values of statements. Those of queries too, so that what is looked up by a name is found by it."""

    def __init__(self, hide_keys: Callable[[str], str], is_redacted: Callable[[str], bool]) -> None:
        """`is_redacted` returns whether a long text is known to be redacted: a reply is not read twice."""
        self._hide_keys = hide_keys
        self._is_redacted = is_redacted

    def redact(self, text: str) -> str:
        """Return a text as the database has it."""
        return text if self._is_known(text) else hide_encoded(text, self._hide_keys)

    def redact_values(self, row: Any) -> Any:
        """Return the values of one execution, by place or by name, or those of a column."""
        # They repeat most of their texts.
        values = row.values() if isinstance(row, Mapping) else row
        texts = {value for value in values if type(value) is str}
        texts -= {text for text in texts if len(text) >= SHORTEST and self._is_redacted(text)}
        if self._are_clean(texts):
            return row
        changed = {text: self.redact(text) for text in texts}
        if isinstance(row, Mapping):
            return {name: changed.get(value, value) if type(value) is str else value for name, value in row.items()}
        return type(row)(changed.get(value, value) if type(value) is str else value for value in row)

    def _is_known(self, text: str) -> bool:
        return len(text) >= SHORTEST and self._is_redacted(text)

    def _are_clean(self, texts: Iterable[str]) -> bool:
        # Most rows have short texts, and searching one of these takes as long as searching a whole column: a statement of 20
        # samples took 101 us, and takes 25. No form of a key goes beyond a line; a key that does would only be searched twice.
        lines = "\n".join(texts)
        return hide_encoded(lines, self._hide_keys) == lines
