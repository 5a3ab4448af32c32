"""The definition of a table, the statements that create it, and the changes of its rows that features follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True)
class Column:
    """A column. `references` is a table whose `id` it has."""

    name: str
    type: str
    """As SQLite has it: PostgreSQL's names differ for BLOB alone."""
    key: bool = False
    required: bool = False
    numbered: bool = False
    """Whether the database assigns the number of a new row."""
    references: str = ""
    is_checked: bool = True
    """Whether PostgreSQL looks the reference up for each row. SQLite does it for none."""


# Compared by identity: rows that wait to be written are gathered by table.
@dataclass(frozen=True, eq=False)
class Table:
    """A table, as it is created in SQLite or PostgreSQL."""

    name: str
    columns: tuple[Column, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, str], ...] = ()
    """Name and column of each index."""
    has_rowid: bool = True
    """SQLite stores a table without it in the order of its key: https://sqlite.org/withoutrowid.html"""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return tuple(column.name for column in self.columns if column.key)

    @cached_property
    def has_new_keys(self) -> bool:
        """True where most rows are new when they are written. A key of one column, as a text's hash, is often there already."""
        return len(self.key) > 1 or self.column(self.key[0]).numbered

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def type_of(self, name: str) -> str:
        return self._types[name]

    @cached_property
    def _types(self) -> Mapping[str, str]:
        return {column.name: column.type for column in self.columns}

    def statements(self, *, is_sqlite: bool) -> list[str]:
        """Return the statements that create the table and its indexes."""
        keys = [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        unique = [f"UNIQUE ({', '.join(names)})" for names in self.unique]
        foreign = [
            f"FOREIGN KEY ({c.name}) REFERENCES {c.references} (id)"
            for c in self.columns
            if c.references and (c.is_checked or is_sqlite)
        ]
        columns = [column_definition(column, is_sqlite=is_sqlite) for column in self.columns]
        ending = "" if self.has_rowid or not is_sqlite else " WITHOUT ROWID"
        body = ",\n\t".join([*columns, *keys, *unique, *foreign])
        indexes = [f"CREATE INDEX {name} ON {self.name} ({column})" for name, column in self.indexes]
        return [f"CREATE TABLE {self.name} (\n\t{body}\n){ending}", *indexes]


def column_definition(column: Column, *, is_sqlite: bool) -> str:
    """Return a column as CREATE TABLE and ALTER TABLE have it."""
    type = column.type if is_sqlite else postgresql_type(column.type)
    if column.numbered and not is_sqlite:
        # Stores that were made before have SERIAL, which ends at 2.1e9.
        type = "BIGSERIAL"
    return f"{column.name} {type}{' NOT NULL' if column.required or column.key else ''}"


def postgresql_type(type: str) -> str:
    """Return a column's type by its name in PostgreSQL."""
    return "BYTEA" if type == "BLOB" else type


@dataclass(frozen=True, slots=True)
class RowChange:
    """Rows that a transaction adds to a table, or removes from it. A changed row is removed and added."""

    table: Table
    rows: int
    columns: Mapping[str, Sequence[Any]]
    """By name, as they are stored. A missing column is NULL in all of the rows."""
    is_removed: bool = False


def change_of(table: Table, rows: Sequence[Sequence[Any]], *, is_removed: bool = False) -> RowChange:
    """Return the change that adds or removes whole rows of a table."""
    columns = dict(zip(table.names, zip(*rows, strict=True), strict=True)) if rows else {}
    return RowChange(table, len(rows), columns, is_removed)
