"""Expectations on the fields of a dataset and their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pytest_crucible.datasets.checks.arguments import check_choice, check_count
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import column_check, row_check
from pytest_crucible.datasets.checks.read_times import read_time

TYPES: Mapping[str, Callable[[Any], bool]] = {
    # bool is a subclass of int.
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list | tuple),
    "map": lambda value: isinstance(value, Mapping),
    "timestamp": lambda value: read_time(value) is not None,
}
"""Type -> whether a value has it. A timestamp is any value that the checks of times read."""


@column_check
def expect_column_to_exist(column: str) -> Finder:
    """Expect that some sample has the field, be it without a value."""

    def find(table: Table) -> Finding:
        values = table.column(column)
        return Finding(message=f"the field {column!r} is there", checked=len(values.values))

    return find


@row_check
def expect_column_to_be_of_type(column: str, type: str) -> Finder:
    """Expect values of a type: integer, float, number, string, boolean, list, map or timestamp.

    Integers are not floats, and both are numbers. Booleans are neither.
    """
    check_choice("type", type, TYPES)
    has_type = TYPES[type]

    def find(table: Table) -> Finding:
        values = table.column(column)
        if type != "timestamp":
            # One test for each type, not for each value.
            wrong = {kind for kind in values.types if kind is not _NONE and not has_type(_example(kind))}
            bad = np.array([kind in wrong for kind in map(_type, values.present_values)], dtype=bool)
        else:
            bad = np.array([not has_type(value) for value in values.present_values], dtype=bool)
        return Finding(
            message=f"of type {type}",
            failing=values.present[bad],
            checked=len(bad),
            missing=values.missing,
        )

    return find


@column_check
def expect_column_count_to_equal(count: int) -> Finder:
    """Expect this number of fields: `id` and `input`, `expected` and `group` where samples have them, and all further ones."""
    check_count("count", count)

    def find(table: Table) -> Finding:
        fields = table.fields
        return Finding(
            message=f"there are {len(fields)} fields ({', '.join(fields)})"
            + ("" if len(fields) == count else f", and {count} are expected"),
            checked=len(table),
            is_met=len(fields) == count,
        )

    return find


_NONE = type(None)
_type = type


def _example(kind: _type) -> Any:
    """Return a value of a type, without the arguments that its constructor may need."""
    try:
        return kind()
    except TypeError:
        return object()
