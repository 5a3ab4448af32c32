"""Text in a column of numbers: a cell such as `ERROR` is one lost value, and the other samples keep their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from pytest_crucible.importers.parse_cell import mostly_numbers, not_a_number
from pytest_crucible.importers.results import Results, Row
from pytest_crucible.records import Value


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
