"""Parses cells of tables and recorded values into scores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_WORDS = {"true": True, "false": False, "yes": True, "no": False, "pass": True, "fail": False}
# Spellings of a missing value by pandas, R, JSON and spreadsheets.
_NOTHING = frozenset({"", "nan", "none", "null", "n/a", "na", "-"})


def number(value: Any) -> bool | float | None:
    """Return a cell's value as a number; None for other text, NaN for an empty cell.

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
        parsed = float(word)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else math.nan


def mostly_numbers(cells: Iterable[Any]) -> bool:
    """Return whether more cells are numbers than text: the text of the others, such as `ERROR`, is then a lost value.

    >>> mostly_numbers([1, "", "ERROR", 0.5]), mostly_numbers(["four", "5", "six"]), mostly_numbers([""])
    (True, False, False)
    """
    values = [number(cell) for cell in cells]
    texts = values.count(None)
    return sum(value is not None and not math.isnan(value) for value in values) > texts


def not_a_number(cell: Any) -> str:
    """Return why the value of a cell with text is lost."""
    return f"the value {str(cell)!r:.60} is not a number"
