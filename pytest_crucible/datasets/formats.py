"""Which file is read how."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.errors import DatasetError

Reader = Callable[[Path], Iterator[tuple[int, Mapping[str, Any]]]]
"""Yields (number, row), the number being that of a line, or of a row where there are no lines."""
FORMATS: Mapping[str, tuple[str, str]] = {
    ".jsonl": ("line", "pytest_crucible.datasets.jsonl:read_rows"),
    ".json": ("line", "pytest_crucible.datasets.json_array:read_json"),
    ".csv": ("line", "pytest_crucible.datasets.delimited:read_csv"),
    ".tsv": ("line", "pytest_crucible.datasets.delimited:read_tsv"),
    ".parquet": ("row", "pytest_crucible.datasets.parquet:read_parquet"),
}
"""Ending -> what a number counts, and the reader. All but Parquet may be gzipped."""


def ending(path: Path) -> str:
    """`.csv` of `sums.csv` and of `sums.csv.gz`; empty where it is none that can be read.

    >>> ending(Path("sums.CSV.gz")), ending(Path("sums.txt"))
    ('.csv', '')
    """
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    found = plain.suffix.lower()
    return found if found in FORMATS else ""


def reader(path: Path) -> tuple[str, Reader]:
    """What its numbers count, and what reads it. Raises DatasetError for a file that is not there or of no format."""
    kinds = ", ".join(FORMATS)
    if not path.is_file():
        raise DatasetError(
            f"dataset {str(path)!r} does not exist: give the path of a file ({kinds}), or a dataset's name"
        )
    if not ending(path):
        raise DatasetError(f"dataset {str(path)!r} is of no format that is read: its name must end in one of {kinds}")
    word, where = FORMATS[ending(path)]
    module, _, name = where.partition(":")
    found: Reader = getattr(importlib.import_module(module), name)
    return word, found
