"""Read Parquet files, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import DatasetError


def read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number from 1, row). Raises DatasetError, also if pyarrow is not installed."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise DatasetError(f'{path} needs pyarrow: pip install "pytest-crucible[parquet]"') from None
    number = 0
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ArrowException) as error:
        raise DatasetError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]})") from error
