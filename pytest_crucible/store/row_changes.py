"""The rows that a transaction changes, for features that write rows of their own in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.store.table import Table


@dataclass(frozen=True, slots=True)
class RowChange:
    """Rows that a transaction adds to a table, or removes from it. A changed row is removed and added."""

    table: Table
    rows: int
    columns: Mapping[str, Sequence[Any]]
    """By name, as they are stored. A missing column is NULL in all of the rows."""
    is_removed: bool = False


def change_of(table: Table, rows: Sequence[Sequence[Any]], *, is_removed: bool = False) -> RowChange:
    """Return the change that adds or removes whole rows of a table."""
    columns = dict(zip(table.names, zip(*rows, strict=True), strict=True)) if rows else {}
    return RowChange(table, len(rows), columns, is_removed)
