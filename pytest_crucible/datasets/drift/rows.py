"""Rows of a file as samples, also without an input: drift compares any fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_crucible.datasets.load import file_source
from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError

_OWN = ("id", "input", "expected", "group")


def load_rows_of_file(path: Path) -> Sequence[Sample]:
    """Return the rows of a file as samples. Rows need neither an id nor an input. Raises DatasetError."""
    _, read = file_source(path)
    samples = pack_if_many(
        Sample(
            id=str(row.get("id", number)),
            input=row.get("input"),
            expected=row.get("expected"),
            group=row.get("group"),
            metadata={name: value for name, value in row.items() if name not in _OWN},
        )
        for number, row in read(path)
    )
    if not samples:
        raise DatasetError(f"dataset {str(path)!r} is empty: write at least one row")
    return samples
