"""Samples of a large file, read from it when they are needed: in memory is where each row of JSON Lines or row group begins."""

from __future__ import annotations

import os
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, overload

from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.row_files import ending, json_row, open_parquet

# A sample in memory takes about as many bytes as in its file. From the file, planning takes 1.3 times as long and reading one of
# them 4 times (`python -m benchmarks.large_dataset`), which is not worth it for less memory than a session has anyway.
INDEXED_BYTES = 100_000_000


class RowIndex(Protocol):
    """The rows of a file by their places."""

    def __len__(self) -> int: ...

    def row(self, place: int) -> tuple[int, Mapping[str, Any]]:
        """Return the number and the content of the row at a place, which exists. Raises DatasetError."""
        ...


class _UnchangedFile:
    """An open file, which must stay as it is: an index of another content would return parts of rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.descriptor)
        self.size, self._changed = self._state()

    def check(self) -> None:
        """Raise DatasetError if somebody has written to the file."""
        if self._state() != (self.size, self._changed):
            raise DatasetError(f"{self.path} has changed while it was in use: run the session again")

    def _state(self) -> tuple[int, int]:
        state = os.fstat(self.descriptor)
        return state.st_size, state.st_mtime_ns


class LineIndex:
    """JSON Lines by the offset of each line, 8 bytes a sample."""

    def __init__(self, path: Path) -> None:
        self._file = _UnchangedFile(path)
        self._starts = array("Q")
        # Only where blank lines make the numbers of lines differ from those of rows.
        self._numbers: array[int] | None = None
        start = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line[:1] != b"{" and not line.decode("utf-8-sig", "replace").strip():
                    self._numbers = self._numbers or array("Q", range(1, number))
                else:
                    self._starts.append(start)
                    if self._numbers is not None:
                        self._numbers.append(number)
                start += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def row(self, place: int) -> tuple[int, Mapping[str, Any]]:
        self._file.check()
        start = self._starts[place]
        end = self._starts[place + 1] if place + 1 < len(self) else self._file.size
        # At an offset: threads that share the descriptor do not move it for each other.
        line, _, _ = os.pread(self._file.descriptor, end - start, start).partition(b"\n")
        number = place + 1 if self._numbers is None else self._numbers[place]
        text = line.decode("utf-8-sig")
        return number, json_row(text, self._file.path, number)


class RowGroupIndex:
    """Parquet by the first row of each row group, of which the last one that was read stays in memory."""

    def __init__(self, path: Path) -> None:
        self._file = _UnchangedFile(path)
        with open_parquet(path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self._ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
        self._last: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row(self, place: int) -> tuple[int, Mapping[str, Any]]:
        self._file.check()
        group = bisect_right(self._ends, place)
        number, table = self._last
        if number != group:
            with open_parquet(self._file.path) as file:
                table = file.read_row_group(group)
            self._last = group, table
        first = self._ends[group] - table.num_rows
        [row] = table.slice(place - first, 1).to_pylist()
        return place + 1, row


_INDEXES: Mapping[str, Callable[[Path], RowIndex]] = {".jsonl": LineIndex, ".parquet": RowGroupIndex}


def index_of(path: Path) -> RowIndex | None:
    """Return the index of a large file; None for a small one, or one whose rows cannot be found apart from those before."""
    make = _INDEXES.get(ending(path)) if path.suffix.lower() != ".gz" else None
    return make(path) if make is not None and path.stat().st_size >= INDEXED_BYTES else None


class IndexedSamples(Sequence[Sample]):
    """Samples that are read from a file at each access: equal each time, not the same object. For any thread."""

    def __init__(
        self, index: RowIndex, sample: Callable[[int, Any], Sample], read: Callable[[], Iterator[Sample]]
    ) -> None:
        """`sample` makes a sample of a row with its number; `read` reads all of them in turn, which is faster."""
        self._index, self._sample, self._read = index, sample, read
        self.sha256 = ""
        """The hash of all fields of all samples, once it is known."""

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Sample]:
        return self._read()

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Sample]: ...

    def __getitem__(self, at: int | slice) -> Sample | Sequence[Sample]:
        number = len(self)
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(number))]
        place = at + number if at < 0 else at
        if not 0 <= place < number:
            raise IndexError(f"sample {at} is out of range for {number} samples")
        return self._sample(*self._index.row(place))
