"""A sample's input or expected value as text: as a reader sees it, and as texts are compared."""

from __future__ import annotations

import json
import unicodedata
from typing import Any


def question_text(value: Any) -> str:
    """Return a value as text; of a conversation, its last message.

    >>> question_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]), question_text(None)
    ('2 + 2?', '')
    """
    if isinstance(value, list) and value and isinstance(value[-1], dict) and isinstance(value[-1].get("content"), str):
        return str(value[-1]["content"])
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def normalise(text: str) -> str:
    """Return Unicode NFKC, case folded, with white space collapsed and ends stripped. Punctuation stays.

    >>> normalise("  The\\n Answer ")
    'the answer'
    """
    # ASCII has one normal form, and `lower` is then equal to `casefold`.
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split())
