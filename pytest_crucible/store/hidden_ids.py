"""Hidden ids of samples: different ids stay apart and equal ones equal, so that what is joined by id is joined as before."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from pytest_crucible.records.redaction import HIDDEN

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
