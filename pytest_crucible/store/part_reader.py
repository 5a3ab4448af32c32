"""Answers queries about runs that have Parquet parts, by DuckDB in memory.

The tables of a query are views there: the rows of the parts, and those that the run store itself has of the same runs. Small
tables are copied. A query about runs without parts never comes here, and never loads DuckDB.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.files import own_folder, runtime_folder
from pytest_crucible.store import schema
from pytest_crucible.store.database import json_part
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.parts import PART_COLUMNS, Part, ResultsFolder, part_schema, part_tables
from pytest_crucible.store.stored_columns import arrow_chunks
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import REFERENCES

if TYPE_CHECKING:
    import pyarrow as pa

    from pytest_crucible.store.database import Connection, Cursor

MEMORY = "256MB"
"""That DuckDB may take before it writes to the disk: with its code and a scan of a part, a process stays below 512 MiB."""
MOST_THREADS = 4
"""Each reads a row group: more threads take more memory."""

RUN_EXPERIMENTS = "SELECT id FROM experiments WHERE run IN (:runs)"
RUN_ARMS = f"SELECT id FROM arms WHERE experiment IN ({RUN_EXPERIMENTS})"


def own_rows_condition(table: Table) -> str:
    """Return the SQL condition for the rows of :runs in a table whose rows may be in parts."""
    if table is schema.events:
        return "run IN (:runs)"
    if table is schema.messages:
        return f"id IN ({schema.forms_of_calls(f'arm IN ({RUN_ARMS})')})"
    if table is schema.texts:
        references = [
            f"SELECT {name} FROM {referring.name} WHERE arm IN ({RUN_ARMS}) AND {name} IS NOT NULL"
            for referring in (schema.replies, schema.calls)
            for name in REFERENCES
            if name in referring.names
        ]
        return f"id IN ({' UNION ALL '.join(references)})"
    return f"arm IN ({RUN_ARMS})"


class _Query(NamedTuple):
    """The tables of a query, by name, and which of its values name a run, an experiment or an arm."""

    tables: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]


_KEY = re.compile(r"(?:\b(\w+)\.)?\b(arm|arms|run|runs|experiment|experiments|id)\s*(?:=|\bIN\b)\s*\(?\s*:(\w+)", re.I)
_NAMES = re.compile(r"(?:\bFROM|\bJOIN|,)\s+(\w+)", re.I)
_OWNERS = {"arms": "arm", "runs": "run", "experiments": "experiment"}


@functools.lru_cache(maxsize=512)
def _parse(sql: str) -> _Query | None:
    """Return what a query reads; None for one without a table whose rows may be in parts, and for other statements."""
    if not sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
        return None
    names = {name.lower() for name in _NAMES.findall(sql)} & set(schema.all_tables())
    if not names & set(part_tables()):
        return None
    keys = [
        (_OWNERS.get((owner or "").lower(), "") if column.lower() == "id" else column.lower(), value)
        for owner, column, value in _KEY.findall(sql)
    ]
    return _Query(tuple(sorted(names)), tuple((column, value) for column, value in keys if column))


_RUNS_OF = {
    "run": "SELECT id FROM runs WHERE id IN (:keys)",
    "experiment": "SELECT run FROM experiments WHERE id IN (:keys)",
    "arm": "SELECT experiments.run FROM experiments JOIN arms ON arms.experiment = experiments.id WHERE arms.id IN (:keys)",
}


class PartReader:
    """The parts of one run store."""

    def __init__(self, *, leaves_out_blocks: bool = False) -> None:
        """`leaves_out_blocks` leaves out the rows that workers have written, which no seal has."""
        self._leaves_out_blocks = leaves_out_blocks
        self._lock = threading.Lock()
        self._duckdb: Any = None
        # Of this reader alone: a process may have several stores open.
        self._spill = runtime_folder() / f"duckdb-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._folders: dict[str, ResultsFolder] = {}
        self._columns: dict[Part, tuple[str, ...]] = {}
        """Those of parts that were checked: a file of an earlier format lacks some."""
        self._samples: dict[tuple[str, tuple[str, ...]], pa.Table] = {}

    def execute(self, connection: Connection, sql: str, values: Mapping[str, Any]) -> Cursor | None:
        """Return the result of a query about runs with parts; None for any other statement. Raises StoreError."""
        query = _parse(sql)
        if query is None or _has_none(connection):
            return None
        with _snapshot(connection), self._lock:
            runs = _runs_of(connection, query, values)
            parts = [
                part for part in load_parts(connection, runs) if not (self._leaves_out_blocks and part.is_of_blocks)
            ]
            if not parts:
                return None
            cursor = self._connect().cursor()
            for name in query.tables:
                self._add_table(connection, cursor, name, runs, parts)
        return _execute(cursor, sql, connection.database.redact(values), is_sqlite=connection.is_sqlite)

    def close(self) -> None:
        """Close DuckDB, and remove what it wrote to the disk."""
        if self._duckdb is not None:
            self._duckdb.close()
            self._duckdb = None
            shutil.rmtree(self._spill, ignore_errors=True)

    def folder(self, root: str) -> ResultsFolder:
        if root not in self._folders:
            self._folders[root] = ResultsFolder(root)
        return self._folders[root]

    def check(self, part: Part) -> None:
        """Raise StoreError for a part whose file is not the one that was entered."""
        if part not in self._columns:
            with self.folder(part.root).open(part) as file:
                self._columns[part] = tuple(file.schema_arrow.names)

    def _connect(self) -> Any:
        if self._duckdb is None:
            try:
                import duckdb
            except ImportError:
                raise StoreError(
                    'this run has replies and scores in Parquet parts: pip install "pytest-crucible[scale]" to read them'
                ) from None
            threads = min(os.cpu_count() or 1, MOST_THREADS)
            self._duckdb = duckdb.connect(
                ":memory:",
                config={
                    "memory_limit": MEMORY,
                    "threads": threads,
                    "temp_directory": str(own_folder(self._spill)),
                    "preserve_insertion_order": "false",
                    # Nothing is downloaded, and no variable of this program is a table.
                    "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false",
                    "python_enable_replacements": "false",
                },
            )
        return self._duckdb

    def _add_table(
        self, connection: Connection, cursor: Any, name: str, runs: frozenset[str] | None, parts: Sequence[Part]
    ) -> None:
        """Make a table visible to the statements of a cursor."""
        table = schema.all_tables()[name]
        if name not in part_tables():
            cursor.register(name, self._copy_small(connection, table, runs))
            return
        condition = "1 = 1" if runs is None else own_rows_condition(table)
        own = _read_table(connection, table, condition, {} if runs is None else {"runs": runs})
        cursor.register(f"stored_{name}", own)
        of_table = [part for part in parts if part.of_table == name]
        sources = [f"SELECT * FROM stored_{name}", *self._sources(cursor, name, of_table)]
        rows = " UNION ALL BY NAME ".join(sources)
        if table in (schema.texts, schema.messages):
            # Equal texts of a run may be in several parts.
            rows = f"SELECT id, ANY_VALUE(body) AS body FROM ({rows}) GROUP BY id"
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {rows}")

    def _sources(self, cursor: Any, name: str, parts: Sequence[Part]) -> Iterator[str]:
        """Yield a query for the parts in each directory or address."""
        for part in parts:
            self.check(part)
        for number, root in enumerate(dict.fromkeys(part.root for part in parts)):
            folder = self.folder(root)
            of_root = [part for part in parts if part.root == root]
            paths = [folder.locate(part.path) for part in of_root]
            if folder.is_local:
                by_name = ", union_by_name = true" if len({self._columns[part] for part in of_root}) > 1 else ""
                yield f"SELECT * FROM read_parquet([{', '.join(map(_quote, paths))}]{by_name})"
                continue
            from pyarrow.dataset import dataset

            columns = part_schema(part_tables()[name])
            cursor.register(f"parts_{number}_{name}", dataset(paths, columns, "parquet", folder.files))
            yield f"SELECT * FROM parts_{number}_{name}"

    def _copy_small(self, connection: Connection, table: Table, runs: frozenset[str] | None) -> pa.Table:
        """Return the rows of a table that has no parts; of samples and twins only those of the runs, which never change."""
        if table not in (schema.samples, schema.twins) or runs is None:
            return _read_table(connection, table, "1 = 1", {})
        column = table.key[0]
        plan = json_part("plan", "dataset_sha256", is_sqlite=connection.is_sqlite)
        query = {
            "samples": f"SELECT DISTINCT {plan} FROM experiments WHERE run IN (:runs)",
            "twins": f"SELECT DISTINCT sha256 FROM variants WHERE sha256 IS NOT NULL AND experiment IN ({RUN_EXPERIMENTS})",
        }[table.name]
        hashes = tuple(sorted(row[0] for row in connection.execute_stored(query, runs=runs)))
        if (table.name, hashes) not in self._samples:
            rows = _read_table(connection, table, f"{column} IN (:hashes)", {"hashes": hashes})
            self._samples = {**{key: old for key, old in self._samples.items() if key[0] != table.name}}
            self._samples[table.name, hashes] = rows
        return self._samples[table.name, hashes]


def _snapshot(connection: Connection) -> contextlib.AbstractContextManager[None]:
    """Let the manifest and the rows beside it be of one time: another process may be moving rows into parts."""
    raw = connection.raw
    is_within = raw.in_transaction if connection.is_sqlite else bool(raw.info.transaction_status)
    return contextlib.nullcontext() if is_within else connection.snapshot()


def _has_none(connection: Connection) -> bool:
    return next(iter(connection.execute_stored(f"SELECT 1 FROM {PARTS.name} LIMIT 1")), None) is None


def load_parts(connection: Connection, runs: frozenset[str] | None) -> list[Part]:
    """Return the manifest of some runs, or of all."""
    condition = "" if runs is None else "WHERE run IN (:runs)"
    query = f"SELECT {PART_COLUMNS} FROM {PARTS.name} {condition} ORDER BY id"
    return [Part(*row) for row in connection.execute_stored(query, **({} if runs is None else {"runs": runs}))]


def _runs_of(connection: Connection, query: _Query, values: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the runs that a query names by its values; None if it may concern all."""
    runs: set[str] = set()
    is_named = False
    for column, value in query.keys:
        keys = values.get(value)
        keys = list(keys) if isinstance(keys, list | tuple | set | frozenset) else [keys]
        # An event names its experiment and arm by their texts.
        kind = str if column.startswith("run") else int
        column = column.rstrip("s")
        if keys and all(isinstance(key, kind) for key in keys):
            is_named = True
            runs |= {row[0] for row in connection.execute_stored(_RUNS_OF[column], keys=keys)}
    return frozenset(runs) if is_named else None


def _read_table(connection: Connection, table: Table, condition: str, values: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa

    query = f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {condition}"
    chunks = list(arrow_chunks(table, table.names, connection.execute_stored(query, **values), widens=True))
    return pa.concat_tables(chunks, promote_options="permissive") if chunks else part_schema(table).empty_table()


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_VALUE = re.compile(r"(?<![:\w]):([a-z]\w*)")
_RESERVED = re.compile(r"(?<!:)\b(at)\b")
"""Names of columns that are keywords of DuckDB."""
_TRUNCATE = re.compile(r"CAST\(((?:[^()]|\([^()]*\))*) AS INTEGER\)")


@functools.lru_cache(maxsize=512)
def _translate(sql: str, sizes: tuple[tuple[str, int], ...]) -> str:
    """Return a statement as DuckDB reads it: its cast rounds, and its JSON_EXTRACT returns a text with its quotes."""
    for name, size in sizes:
        places = ", ".join(f":{name}_{number}" for number in range(size)) or "NULL"
        sql = re.sub(rf"(?<![:\w]):{name}\b", places, sql)
    # Text between quotes stays as it is.
    sql = "'".join(part if k % 2 else _RESERVED.sub(r'"\1"', part) for k, part in enumerate(sql.split("'")))
    sql = _TRUNCATE.sub(r"CAST(TRUNC(\1) AS BIGINT)", sql.replace("JSON_EXTRACT(", "json_extract_string("))
    return _VALUE.sub(r"$\1", sql)


def _execute(cursor: Any, sql: str, values: Mapping[str, Any], *, is_sqlite: bool) -> Cursor:
    lists = {name: value for name, value in values.items() if isinstance(value, list | tuple | set | frozenset)}
    statement = _translate(sql, tuple((name, len(value)) for name, value in lists.items()))
    plain = {name: value for name, value in values.items() if name not in lists}
    plain |= {f"{name}_{number}": item for name, items in lists.items() for number, item in enumerate(items)}
    with explain_parts():
        # DuckDB refuses values that the statement does not have.
        cursor.execute(statement, {name: value for name, value in plain.items() if f"${name}" in statement})
    return _Rows(cursor, is_sqlite=is_sqlite)


@contextlib.contextmanager
def explain_parts() -> Iterator[None]:
    """Raise a StoreError for an error of DuckDB."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise StoreError(f"the Parquet parts of this run cannot be read ({str(error).splitlines()[0]})") from error


class _Rows:
    """A result of DuckDB, with the values that the run store's own database would return."""

    rowcount = -1

    def __init__(self, cursor: Any, *, is_sqlite: bool) -> None:
        self._cursor = cursor
        self.description = cursor.description
        self._flags = [k for k, column in enumerate(self.description) if is_sqlite and str(column[1]) in _FLAGS]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while rows := self.fetchmany(_FETCH):
            yield from rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        with explain_parts():
            rows: list[tuple[Any, ...]] = self._cursor.fetchmany(size)
        return list(map(self._with_numbers, rows)) if self._flags else rows

    def _with_numbers(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for k in self._flags:
            values[k] = None if values[k] is None else int(values[k])
        return tuple(values)


_FETCH = 2_048
"""Rows of one of DuckDB's vectors."""
_FLAGS = ("BOOLEAN", "bool")
