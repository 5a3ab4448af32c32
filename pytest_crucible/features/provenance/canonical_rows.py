r"""The form in which rows are hashed, which is the same for SQLite and PostgreSQL, before a row is written and after it is read.

A row is the tuple of its values, in the order of its table's columns and without those that may change. It is written in version
2 of Python's marshal format: None is `N`, an integer `i` or `l`, a float `g`, a text `u` and bytes `s`, each with its value. This
takes 0.3 us a row, where JSON takes 1.9.

>>> marshal.dumps((1, 0.5, "a", None), 2)
b'(\x04\x00\x00\x00i\x01\x00\x00\x00g\x00\x00\x00\x00\x00\x00\xe0?u\x01\x00\x00\x00aN'
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, repeat
from math import isnan
from operator import add
from types import NoneType
from typing import Any

from pytest_crucible.store import schema
from pytest_crucible.store.table import Table

MUTABLE: Mapping[Table, frozenset[str]] = {schema.runs: frozenset(("finished", "status", "exit_status"))}
"""Columns that no seal covers: they are written after the reports, which have the root."""
_VERSION = 2
"""Of marshal's format: the last one in which equal values always have equal bytes."""
_LARGEST = 2**63
"""The integers that SQLite stores are smaller."""


SEALED_SINCE = 11
"""The first format with seals."""


@cache
def sealed_columns(table: Table) -> tuple[Sequence[str], Sequence[str]]:
    """Return the columns that are in each row of a table, and those that later formats have added: null in a row without them."""
    names = [name for name in table.names if name not in MUTABLE.get(table, ())]
    later = schema.later_columns(table, SEALED_SINCE - 1)
    return [name for name in names if name not in later], [name for name in names if name in later]


def as_read(type: str, value: Any) -> Any:
    """Return a value that was read from the database."""
    return value


def row_hashes(
    table: Table, columns: Mapping[str, Sequence[Any]], rows: int, stored: Callable[[str, Any], Any] = as_read
) -> list[bytes]:
    """Return the SHA-256 of each row in its canonical form. A column that is missing is null.

    `stored` returns, of a column of some type, a number or the text of a JSON number as the database returns it.
    """

    def canonical(names: Sequence[str]) -> list[Sequence[Any]]:
        return [
            _canonical(table.type_of(name), columns[name], stored) if name in columns else [None] * rows
            for name in names
        ]

    names, later = sealed_columns(table)
    tuples: Iterable[tuple[Any, ...]] = zip(*canonical(names), strict=True)
    added = [name for name in later if name in columns and columns[name].count(None) < rows]
    if added:
        tuples = map(add, tuples, _present_values(dict(zip(added, canonical(added), strict=True))))
    sha256 = hashlib.sha256
    # One after the other takes 0.63 us a row, and both at once 0.73.
    forms = [*map(marshal.dumps, tuples, repeat(_VERSION))]
    return [sha256(form).digest() for form in forms]


def _present_values(columns: Mapping[str, Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    """Return the names and values of columns that are not null, of each row."""
    # Nearly every call has a reply, and with it the same columns as the others.
    if not any(None in column for column in columns.values()):
        return zip(*chain.from_iterable((repeat(name), column) for name, column in columns.items()), strict=False)
    return (
        tuple(chain.from_iterable(pair for pair in zip(columns, row, strict=True) if pair[1] is not None))
        for row in zip(*columns.values(), strict=True)
    )


def _canonical(type_name: str, values: Sequence[Any], stored: Callable[[str, Any], Any]) -> Sequence[Any]:
    """Return the values of a column of some type in the form that both databases return, whichever has them."""
    kinds = {*map(type, values)}
    if kinds == {NoneType}:
        return values
    if type_name == "JSON":
        return values if kinds <= _TEXTS and not any(map(_may_be_number, values)) else _numbers("JSON", values, stored)
    if type_name == "FLOAT":
        # SQLite has neither -0.0 nor NaN, which alone differs from itself.
        if kinds == {float} and not any(map(isnan, values)):
            return [*map(add, values, repeat(0.0))]
        if kinds <= {float, NoneType}:
            return [None if value is None or value != value else value + 0.0 for value in values]
        return [*map(_float, values)]
    if kinds <= _PLAIN[type_name.partition("(")[0]]:
        return values
    if kinds <= _BOOLEANS:
        # What PostgreSQL stores: a reply and an observation each have some.
        return [*map(_AS_INTEGERS.get, values)]
    return _numbers(type_name, values, stored) if type_name in _NUMBERS else [*map(_text_or_bytes, values)]


_TEXTS, _INTEGERS, _BYTES, _BOOLEANS = (frozenset((kind, NoneType)) for kind in (str, int, bytes, bool))
_AS_INTEGERS = {True: 1, False: 0, None: None}
_PLAIN = {
    "TEXT": _TEXTS,
    "VARCHAR": _TEXTS,
    "BLOB": _BYTES,
    "INTEGER": _INTEGERS,
    "BIGINT": _INTEGERS,
    "BOOLEAN": _INTEGERS,
}
_NUMBERS = ("INTEGER", "BIGINT", "BOOLEAN")


def _may_be_number(text: str | None) -> bool:
    return text is not None and text[:1] in _DIGITS


_DIGITS = frozenset("-0123456789")


def _numbers(type_name: str, values: Sequence[Any], stored: Callable[[str, Any], Any]) -> list[Any]:
    return [
        _number(stored(type_name, value))
        if isinstance(value, float) or (isinstance(value, str) and _may_be_number(value))
        else int(value)
        if isinstance(value, int)
        else value
        for value in values
    ]


def _number(value: Any) -> Any:
    """Return a number, or its text, as an integer where it is one. SQLite stores neither 12.0 in INTEGER nor '12' in JSON."""
    if isinstance(value, str):
        try:
            value = int(value) if value.lstrip("-").isdecimal() else float(value)
        except ValueError:
            return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _LARGEST else float(value)
    return value if abs(value) < _LARGEST else float(value)


def _float(value: Any) -> Any:
    if not isinstance(value, int | float):
        return value
    return float(value) + 0.0 if value == value else None


def _text_or_bytes(value: Any) -> Any:
    """Return a text or bytes of a subclass as their own type, of which marshal knows no other."""
    return str.__str__(value) if isinstance(value, str) else bytes(value) if isinstance(value, memoryview) else value
