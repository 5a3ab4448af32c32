"""File formats of datasets: the reader for each file name ending."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.object_reference import load_object

# Yields (number, row); the number is a line number, or a row number in formats without lines. Those in ID_READERS take `only=`.
Reader = Callable[..., Iterator[tuple[int, Mapping[str, Any]]]]
# Yields (number, id or None) for each row of a file and the name of its field.
IdReader = Callable[[Path, str], Iterator[tuple[int, Any]]]
# File name ending -> what the numbers count, and the reader. All but Parquet may be gzipped.
FORMATS: Mapping[str, tuple[str, str]] = {
    ".jsonl": ("line", "pytest_crucible.datasets.jsonl:read_rows"),
    ".json": ("line", "pytest_crucible.datasets.json_array:read_json"),
    ".csv": ("line", "pytest_crucible.datasets.delimited:read_csv"),
    ".tsv": ("line", "pytest_crucible.datasets.delimited:read_tsv"),
    ".parquet": ("row", "pytest_crucible.datasets.parquet:read_parquet"),
}
# Formats whose ids can be read without building the rows. A JSON array has to be parsed as a whole.
ID_READERS: Mapping[str, str] = {
    ".jsonl": "pytest_crucible.datasets.jsonl:read_ids",
    ".csv": "pytest_crucible.datasets.delimited:read_csv_ids",
    ".tsv": "pytest_crucible.datasets.delimited:read_tsv_ids",
    ".parquet": "pytest_crucible.datasets.parquet:read_parquet_ids",
}


def ending(path: Path) -> str:
    """Return the format's ending, such as `.csv` for `sums.csv` and `sums.csv.gz`; empty for unknown formats.

    >>> ending(Path("sums.CSV.gz")), ending(Path("sums.txt"))
    ('.csv', '')
    """
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = plain.suffix.lower()
    return suffix if suffix in FORMATS else ""


def reader(path: Path) -> tuple[str, Reader]:
    """Return what the reader's numbers count, and the reader. Raises DatasetError if the file is missing or of unknown format."""
    kinds = ", ".join(FORMATS)
    if not path.is_file():
        raise DatasetError(
            f"dataset {str(path)!r} does not exist: give the path of a file ({kinds}), or a dataset's name"
        )
    if not ending(path):
        raise DatasetError(f"dataset {str(path)!r} has an unknown format: its name must end in one of {kinds}")
    word, where = FORMATS[ending(path)]
    read: Reader = load_object(where)
    return word, read


def id_reader(path: Path) -> IdReader | None:
    """Return the reader of ids alone, or None if a format has none."""
    where = ID_READERS.get(ending(path))
    read: IdReader | None = None if where is None else load_object(where)
    return read
