"""Cells of a table and values of a bag: is it a score, and which?"""

from __future__ import annotations

import math
from typing import Any

_WORDS = {"true": True, "false": False, "yes": True, "no": False, "pass": True, "fail": False}
_NOTHING = frozenset({"", "nan", "none", "null", "n/a", "na", "-"})


def number(value: Any) -> bool | float | None:
    """None for what is no number; NaN for what should be one and is not there.

    >>> number("True"), number("0.5"), number("a reply"), number("")
    (True, 0.5, None, nan)
    """
    if isinstance(value, bool | int | float):
        return value if isinstance(value, bool) or math.isfinite(value) else math.nan
    word = "" if value is None else value.strip().lower() if isinstance(value, str) else "text"
    if word in _NOTHING:
        return math.nan
    if word in _WORDS:
        return _WORDS[word]
    try:
        found = float(word)
    except ValueError:
        return None
    return found if math.isfinite(found) else math.nan
