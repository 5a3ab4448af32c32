"""Cells of tables and recorded values as scores; text in a column of numbers, such as `ERROR`, is one lost value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.results import Results, Row
from pytest_crucible.records import Value
from pytest_crucible.records.serialize import canonical

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


def cell_value(cell: Any) -> Value | None:
    """Return a cell's value as a number, or else as text; None for an empty cell."""
    parsed = number(cell)
    if parsed is None:
        return str(cell)
    return None if math.isnan(parsed) else parsed


def amount(cell: Any) -> float | None:
    """Return a cell's number; None for text and an empty cell."""
    value = number(cell)
    return None if value is None or math.isnan(value) else float(value)


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else canonical(value)


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


def with_text_lost(results: Sequence[Results]) -> list[Results]:
    """Return the results of a file; of its metrics that are mostly numbers, text is a lost value."""
    numeric = _numeric_metrics(row for arm in results for row in arm.rows)
    return [replace(arm, rows=[_row(row, numeric) for row in arm.rows]) for arm in results] if numeric else [*results]


def _numeric_metrics(rows: Iterable[Row]) -> set[str]:
    """Return the metrics that have some texts as values, but more numbers."""
    values: dict[str, list[Value | None]] = {}
    for row in rows:
        for name, value in row.scores.items():
            values.setdefault(name, []).append(value)
    with_text = {name for name, cells in values.items() if any(isinstance(cell, str) for cell in cells)}
    return {name for name in with_text if mostly_numbers(values[name])}


def _row(row: Row, numeric: Set[str]) -> Row:
    texts = {name: value for name, value in row.scores.items() if name in numeric and isinstance(value, str)}
    if not texts:
        return row
    scores = {name: value for name, value in row.scores.items() if name not in texts}
    return replace(row, scores=scores, lost={**row.lost, **{name: not_a_number(text) for name, text in texts.items()}})
