"""The groups of imported samples: rows that share a document, a repository or a template, by a key of their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.importers.results import Results, Row
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest


def with_groups(results: Sequence[Results], key: str) -> list[Results]:
    """Return the results with the value of `key` as each sample's group: of its metadata, or else of its input.

    Raises SpecError for a key that no sample has.
    """
    rows = [row for arm in results for row in arm.rows]
    if not any(key in attributes(row) for row in rows):
        keys = list(dict.fromkeys(name for row in rows for name in attributes(row)))
        hint = suggest(key, keys, always=f"there are {', '.join(keys) or 'no keys'}")
        raise SpecError(f"--group {key}: no sample has this key: {hint}")
    return [replace(arm, rows=[replace(row, group=group_of(row, key)) for row in arm.rows]) for arm in results]


def group_of(row: Row, key: str) -> str | None:
    """Return a sample's value of a key as the name of its group; None for a sample without one."""
    value = attributes(row).get(key)
    return None if value is None or value == "" else str(value)


def attributes(row: Row) -> Mapping[str, Any]:
    """Return a sample's metadata, with the fields of its input if it has fields."""
    fields = row.input if isinstance(row.input, Mapping) else {}
    return {str(name): value for name, value in {**fields, **row.metadata}.items()}
