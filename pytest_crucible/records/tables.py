"""A table to export: its columns, and rows that are read lazily."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

# `json` is any JSON value: a text is unchanged in files without a JSON type, everything else becomes
# JSON.
ColumnKind = Literal["text", "integer", "number", "flag", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTable:
    """Rows are tuples in the order of the columns; unknown values are None."""

    columns: Mapping[str, ColumnKind]
    rows: Iterable[tuple[Any, ...]]
