"""Parquet parts: files with rows of one table of a run, beside the run store, which has a manifest of them.

A part that is not in the manifest does not exist. It is put under its name as a whole before it is entered, so that a process that
is killed leaves at most a file that `crucible gc` removes.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.store.row_batches import arrow_type
from pytest_crucible.store.schema import later_columns
from pytest_crucible.store.spill_file import written_tables
from pytest_crucible.store.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyarrow.parquet import ParquetFile

ROW_GROUP = 1 << 17
"""Rows that are compressed together: DuckDB gives each thread one such group, and a scan has one of each part in memory."""
PART_ROWS = 1 << 20
"""Rows of a part, about 12 MB of scores."""
MOST_GROUP_BYTES = 1 << 30
"""Uncompressed bytes of a row group: a foreign file must not fill the memory."""
OF_BLOCKS = "blocks_"
"""Begins the names of files whose rows were never in the run store."""
_PATH = re.compile(r"[\w-]{1,32}/[a-z_]{1,63}-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True)
class Part:
    """An entry of the manifest."""

    run: str
    of_table: str
    root: str
    path: str
    row_count: int
    bytes: int
    sha256: str
    first_position: int | None
    last_position: int | None

    def __str__(self) -> str:
        return f"part {self.path!r} of {self.root!r}"

    @property
    def is_of_blocks(self) -> bool:
        """True for rows that a worker has written: no seal has each of them, but one has the SHA-256 of their file."""
        return self.path.partition("/")[2].startswith(OF_BLOCKS)

    @property
    def table(self) -> Table:
        """Raises StoreError for a table whose rows are never in parts."""
        if self.of_table not in part_tables():
            raise StoreError(
                f"{self} has rows of {self.of_table!r}: expected a table that a run writes; restore the store"
            )
        return part_tables()[self.of_table]


PART_COLUMNS = ", ".join(Part.__dataclass_fields__)


def part_tables() -> dict[str, Table]:
    """Return the tables whose rows are kept in parts: those that grow with the units of a run."""
    return {name: table for name, table in written_tables().items() if name not in ("reply_cache", "known_adapters")}


def part_schema(table: Table) -> pa.Schema:
    """Return the columns of a part."""
    import pyarrow as pa

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in table.columns])


class ResultsFolder:
    """A directory, or an address of one of pyarrow's file systems such as s3://bucket/runs, in which parts are."""

    def __init__(self, root: str) -> None:
        """Raises SpecError for an address with credentials, and without pyarrow."""
        self.root = root if "://" in root else str(Path(root).absolute())
        if "://" in root and "@" in root.split("://", 1)[1].split("/", 1)[0]:
            raise SpecError(
                "crucible_results has credentials in its address: keep them in the environment, "
                "for example AWS_ACCESS_KEY_ID, and write s3://bucket/folder"
            )
        self._open_files()

    def _open_files(self) -> None:
        try:
            from pyarrow import ArrowException
            from pyarrow.fs import FileSystem, LocalFileSystem
        except ImportError:
            raise SpecError('crucible_results needs pyarrow: pip install "pytest-crucible[scale]"') from None
        self.files: FileSystem
        if "://" not in self.root:
            self.files, self._folder = LocalFileSystem(), self.root
            return
        try:
            self.files, self._folder = FileSystem.from_uri(self.root)
        except (ArrowException, OSError, ValueError) as error:
            raise SpecError(
                f"crucible_results = {self.root!r} is not an address that pyarrow opens ({error}): "
                "write a directory, or an address such as s3://bucket/runs"
            ) from error

    @cached_property
    def is_local(self) -> bool:
        from pyarrow.fs import LocalFileSystem

        return isinstance(self.files, LocalFileSystem)

    def create(self) -> None:
        """Create the directory. Raises SpecError for one that cannot be written."""
        try:
            self.files.create_dir(self._folder, recursive=True)
        except OSError as error:
            raise SpecError(
                f"crucible_results = {self.root!r} cannot be created ({error}): name another place"
            ) from error
        if self.is_local and not os.access(self._folder, os.W_OK | os.X_OK):
            raise SpecError(f"crucible_results = {self.root!r} cannot be written: check its permissions")

    @property
    def is_unprotected(self) -> bool:
        """True where another machine receives the rows without TLS."""
        return "scheme=http&" in f"{self.root}&" or "endpoint_override=http:" in self.root.replace("%3A", ":")

    def locate(self, path: str) -> str:
        """Return the whole path of a part. Raises StoreError for a path that leads out of the results."""
        if not _PATH.fullmatch(path):
            raise StoreError(f"part {path!r} is not below {self.root!r}: the manifest was changed; restore the store")
        return f"{self._folder.rstrip('/')}/{path}"

    def put(self, path: str, content: memoryview) -> None:
        """Write a whole file, or nothing that has its name. Raises StoreError."""
        whole = self.locate(path)
        try:
            self.files.create_dir(os.path.dirname(whole), recursive=True)
            if not self.is_local:
                # Such a file exists when it is complete.
                with self.files.open_output_stream(whole) as stream:
                    stream.write(content)
                return
            draft = Path(f"{whole}.draft")
            with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(whole)
        except OSError as error:
            raise StoreError(f"results in {self.root!r} cannot be written ({error}): check the directory") from error

    def has(self, path: str) -> bool:
        """Return whether there is a file. Raises StoreError."""
        try:
            return bool(self.files.get_file_info(self.locate(path)).is_file)
        except OSError as error:
            raise StoreError(f"results in {self.root!r} cannot be read ({error}): check the directory") from error

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file; empty without one. Raises StoreError."""
        if not self.has(path):
            return ""
        try:
            with self.files.open_input_file(self.locate(path)) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise StoreError(f"results in {self.root!r} cannot be read ({error}): check the directory") from error

    def remove(self, path: str) -> None:
        """Remove a file; nothing if it is gone already."""
        with_file = self.locate(path)
        try:
            self.files.delete_file(with_file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"results in {self.root!r} cannot be removed ({error}): check the directory") from error

    def remove_leftovers(self, run: str, entered: Iterable[str], before: float) -> int:
        """Remove files of a run older than `before` and not among the entered ones; return their bytes. Raises StoreError."""
        from pyarrow.fs import FileSelector

        names = {path.partition("/")[2] for path in entered}
        folder = os.path.dirname(self.locate(f"{run}/x-{'0' * 32}.parquet"))
        try:
            infos = self.files.get_file_info(FileSelector(folder, allow_not_found=True))
            orphans = [
                info for info in infos if info.is_file and info.base_name not in names and info.mtime_ns < before * 1e9
            ]
            for info in orphans:
                self.files.delete_file(info.path)
        except OSError as error:
            raise StoreError(f"results in {self.root!r} cannot be removed ({error}): check the directory") from error
        return sum(info.size for info in orphans)

    def open(self, part: Part, as_dictionaries: Sequence[str] = ()) -> ParquetFile:
        """Return the open file of a part. Raises StoreError for one that is missing, truncated, foreign or too large.

        Texts of the columns `as_dictionaries` are read once each.
        """
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            size = self.files.get_file_info(self.locate(part.path)).size
            if size is None:
                raise StoreError(f"{part} is missing: put it back, or mount its directory")
            if size != part.bytes:
                raise StoreError(f"{part} has {size} bytes, the manifest says {part.bytes}: restore the file")
            source = self.files.open_input_file(self.locate(part.path))
            file = ParquetFile(source, pre_buffer=False, read_dictionary=list(as_dictionaries))
        except KeyError as error:
            raise _other_columns(part) from error
        except (ArrowException, OSError) as error:
            raise _unreadable(part, error) from error
        _check(part, file)
        return file

    def batches(self, part: Part, rows: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part in batches; texts are dictionary-encoded. Raises StoreError, as `open` does.

        Columns that a later format has added are null.
        """
        import pyarrow as pa

        schema = part_schema(part.table)
        with self.open(part, [name for name in columns if pa.types.is_string(schema.field(name).type)]) as file:
            constants = _constant_columns(file, columns, rows) | _absent_columns(file, schema, columns, rows)
            # At least one, which tells the number of rows.
            decoded = [name for name in columns if name not in constants] or file.schema_arrow.names[:1]
            try:
                # Without threads of Arrow's own: they take a fifth more of the processor for batches of this size.
                for batch in file.iter_batches(rows, columns=decoded, use_threads=False):
                    whole = {name: constants[name].slice(0, batch.num_rows) for name in constants}
                    whole |= {name: batch.column(name) for name in decoded}
                    yield pa.RecordBatch.from_arrays([whole[name] for name in columns], names=list(columns))
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(part, error) from error


def _constant_columns(file: ParquetFile, columns: Sequence[str], rows: int) -> dict[str, pa.Array]:
    """Return so many rows of each column of whole numbers that has one value in the whole file, as repeats mostly have."""
    import pyarrow as pa

    groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
    constants = {}
    for place, name in enumerate(file.schema_arrow.names):
        if name in columns and file.schema_arrow.field(name).type == pa.int64():
            facts = [group.column(place).statistics for group in groups]
            ends = {end for each in facts if each is not None and each.has_min_max for end in (each.min, each.max)}
            if len(ends) == 1 and all(each is not None and each.has_min_max and not each.null_count for each in facts):
                constants[name] = pa.repeat(pa.scalar(ends.pop(), pa.int64()), rows)
    return constants


def _absent_columns(file: ParquetFile, schema: pa.Schema, columns: Sequence[str], rows: int) -> dict[str, pa.Array]:
    """Return so many nulls for each column that the file lacks."""
    import pyarrow as pa

    absent = [name for name in columns if name not in file.schema_arrow.names]
    return {name: pa.nulls(rows, schema.field(name).type) for name in absent}


def _unreadable(part: Part, error: Exception) -> StoreError:
    return StoreError(f"{part} cannot be read ({str(error).splitlines()[0]}): restore the file")


def _other_columns(part: Part) -> StoreError:
    return StoreError(f"{part} has other columns than table {part.of_table!r}: restore the file")


def _check(part: Part, file: ParquetFile) -> None:
    """Raise StoreError for a file whose rows are not those of the manifest."""
    import pyarrow as pa

    # A file of an earlier format lacks the columns that were added since.
    absent = later_columns(part.table).difference(file.schema_arrow.names)
    expected = [field for field in part_schema(part.table) if field.name not in absent]
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in file.schema_arrow
    ]
    if [(field.name, field.type) for field in fields] != [(field.name, field.type) for field in expected]:
        raise _other_columns(part)
    metadata = file.metadata
    if metadata.num_rows != part.row_count:
        raise StoreError(f"{part} has {metadata.num_rows} rows, the manifest says {part.row_count}: restore the file")
    largest = max((metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)), default=0)
    if largest > MOST_GROUP_BYTES:
        raise StoreError(f"{part} would take {largest} bytes of memory: expected at most {MOST_GROUP_BYTES}")


def write_part(results: ResultsFolder, run: str, table: Table, rows: pa.Table, *, prefix: str = "") -> Part:
    """Write rows, which have all columns of a table, as a part, and return its entry. Raises StoreError.

    `prefix` begins the file's name: OF_BLOCKS, or none.
    """
    content = _encode(table, rows)
    path = _new_path(run, f"{prefix}{table.name}")
    results.put(path, content)
    first, last = _position_range(table, rows)
    return Part(
        run=run,
        of_table=table.name,
        root=results.root,
        path=path,
        row_count=rows.num_rows,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        first_position=first,
        last_position=last,
    )


def probe_path(run: str) -> str:
    """Return the path of a file that shows whether two processes write to one place; no manifest has it."""
    return _new_path(run, "probe")


def _new_path(run: str, name: str) -> str:
    return f"{run}/{name}-{uuid.uuid4().hex}.parquet"


def _encode(table: Table, rows: pa.Table) -> memoryview:
    """Return a Parquet file with the rows in the order of their positions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = [column.name for column in table.columns if column.type in ("INTEGER", "BIGINT")]
    sink = pa.BufferOutputStream()
    pq.write_table(
        _in_order(rows),
        sink,
        compression="zstd",
        row_group_size=ROW_GROUP,
        # Positions and arms differ little from row to row; scores and metrics have few values.
        use_dictionary=[name for name in table.names if name not in numbers],
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )
    return memoryview(sink.getvalue())


def _in_order(rows: pa.Table) -> pa.Table:
    if "position" not in rows.column_names:
        return rows
    import numpy as np

    positions = rows["position"].to_numpy()
    if not (positions[1:] < positions[:-1]).any():
        return rows
    return rows.take(np.argsort(positions, kind="stable"))


def _position_range(table: Table, rows: pa.Table) -> tuple[int | None, int | None]:
    if "position" not in table.names or not rows.num_rows:
        return None, None
    import pyarrow.compute as pc

    ends: dict[str, Any] = pc.min_max(rows["position"]).as_py()
    return ends["min"], ends["max"]


def manifest_rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return the rows of the manifest, to be inserted in the transaction in which the parts' rows begin to exist."""
    return [asdict(part) for part in parts]
