"""Draw samples from a large file: the ids of all rows are read, and only the rows that are drawn."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.formats import ID_READERS, ending, id_reader
from pytest_crucible.datasets.load import check_samples, file_source
from pytest_crucible.datasets.sample_checks import Source
from pytest_crucible.datasets.subset import draw
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError

# Bytes. A smaller file is read in a second, and then all of its rows are checked.
LARGE = 4_000_000


def is_large(path: Path) -> bool:
    """Return whether a file is large, and of a format whose ids can be read alone."""
    return ending(path) in ID_READERS and path.is_file() and path.stat().st_size >= LARGE


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file of a format in `ID_READERS`, with the names of its fields."""

    path: Path
    fields: Mapping[str, str]

    def ids(self) -> Iterator[tuple[int, str]]:
        """Yield (number, id) for each row. Raises DatasetError if only some rows have an id."""
        source, _ = file_source(self.path)
        read = id_reader(self.path)
        assert read is not None
        first: tuple[int, Any] | None = None
        for number, value in read(self.path, self.fields.get("id", "id")):
            first = first or (number, value)
            if (value is None) != (first[1] is None):
                _raise_missing_id(source, number if value is None else first[0])
            yield number, f"{source.stem}-{number}" if value is None else str(value)

    def draw(self, limit: int, *, seed: int) -> tuple[Sequence[Sample], int]:
        """Return the samples that `subset` draws from the whole file, and the number of its rows. Raises DatasetError."""
        total = 0

        def draws() -> Iterator[tuple[bytes, int]]:
            nonlocal total
            for number, sample_id in self.ids():
                total += 1
                yield draw(f"{seed}:{sample_id}"), number

        drawn = {number for _, number in heapq.nsmallest(limit, draws())}
        source, read = file_source(self.path)
        return check_samples(source, read(self.path, only=drawn), self.fields), total


def _raise_missing_id(source: Source, number: int) -> None:
    raise DatasetError(f"{source.where(number)} has no 'id' but others have one: give it to all samples or to none")
