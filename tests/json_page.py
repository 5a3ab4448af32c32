"""The keys that docs/reference/json.md describes."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "json.md"


def page_keys() -> list[str]:
    """Return the key of each row; `a.{b,c}` are two."""
    rows = re.findall(r"^\| `(\S+?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [key for row in rows for key in expand_braces(row)]


def expand_braces(key: str) -> list[str]:
    braces = re.search(r"\{([^{}]*)\}", key)
    if braces is None:
        return [key]
    return [
        expanded
        for name in braces[1].split(",")
        for expanded in expand_braces(key[: braces.start()] + name + key[braces.end() :])
    ]
