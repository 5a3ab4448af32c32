"""A sample's input or expected value as a reader sees it."""

from __future__ import annotations

import json
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
