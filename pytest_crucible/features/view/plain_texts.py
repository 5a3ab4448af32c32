"""Prompts, replies and expected values as the plain text that a person reads."""

from __future__ import annotations

import json
from typing import Any

from pytest_crucible.report.printable import A_LINE, printable


def plain_text(value: Any) -> str:
    """Return a text, messages one after the other, or any other value as JSON, without characters that act on a page."""
    return printable(_text(value), A_LINE)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) and {"role", "content"} <= part.keys() for part in value):
        return "\n\n".join(f"{part['role']}: {_text(part['content'])}" for part in value)
    return json.dumps(value, ensure_ascii=False, indent=1)
