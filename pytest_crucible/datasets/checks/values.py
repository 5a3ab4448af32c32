"""Expectations on the fields of a dataset, their types, and each value of a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_crucible.datasets.check import Finder, Finding, row_finding
from pytest_crucible.datasets.checks.strings import compile_regex
from pytest_crucible.datasets.checks.times import read_time
from pytest_crucible.datasets.columns import Column, Table, label_of
from pytest_crucible.datasets.expectation import (
    check_choice,
    check_count,
    check_range,
    column_check,
    is_outside,
    range_text,
    row_check,
)
from pytest_crucible.records.errors import SpecError

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
        return row_finding(values, bad, f"of type {type}")

    return find


@column_check
def expect_column_count_to_equal(count: int) -> Finder:
    """Expect this number of fields: `id` and `input`, `expected` and `group` where samples have them, and all further ones."""
    check_count("count", count)

    def find(table: Table) -> Finding:
        fields = table.fields
        is_met = len(fields) == count
        message = f"there are {len(fields)} fields ({', '.join(fields)})" + (
            "" if is_met else f", and {count} are expected"
        )
        return Finding(message=message, checked=len(table), is_met=is_met)

    return find


_NONE = type(None)
_type = type


def _example(kind: _type) -> Any:
    """Return a value of a type, without the arguments that its constructor may need."""
    try:
        return kind()
    except TypeError:
        return object()


@row_check
def expect_column_values_to_be_between(column: str, min: float | None = None, max: float | None = None) -> Finder:
    """Expect numbers from `min` to `max`, both included. Anything that is not a number fails."""
    check_range(min, max)

    def find(table: Table) -> Finding:
        values = table.column(column)
        return row_finding(values, is_outside(values.numbers, min, max), range_text(min, max))

    return find


@row_check
def expect_column_values_to_be_in_set(column: str, values: Sequence[Any]) -> Finder:
    """Expect one of these values. Numbers are equal as in JSON: 1 is 1.0, and neither "1" nor true."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise SpecError('values must be a list, such as ["SUPPORT", "REFUTE"]')
    allowed = {_key(value) for value in values}
    if not allowed:
        raise SpecError("values is empty; list the values that are allowed")
    labels = ", ".join(sorted(label for _, label in allowed)[:10]) + (", ..." if len(allowed) > 10 else "")

    def find(table: Table) -> Finding:
        of_column = table.column(column)
        keys = _keys(of_column)
        # Few values repeat often: each is looked up once.
        is_unknown = {key: key not in allowed for key in set(keys)}
        return row_finding(of_column, [is_unknown[key] for key in keys], f"one of {labels}")

    return find


@row_check
def expect_column_values_to_match_regex(column: str, pattern: str) -> Finder:
    """Expect texts in which the regular expression is found. Other values fail; one that takes a second fails the check."""
    search = compile_regex(pattern).search

    def find(table: Table) -> Finding:
        values = table.column(column)
        bad = [not (isinstance(value, str) and search(value)) for value in values.present_values]
        return row_finding(values, bad, f"matched by {pattern!r}")

    return find


@row_check
def expect_column_values_to_not_be_null(column: str) -> Finder:
    """Expect a value in every sample: neither null nor NaN nor a missing field."""
    return lambda table: _find_missing(table, column)


@row_check
def expect_no_missing_values(column: str) -> Finder:
    """Expect a value in every sample: neither null nor NaN nor a missing field. An empty text is a value."""
    return lambda table: _find_missing(table, column)


def _find_missing(table: Table, column: str) -> Finding:
    values = table.column(column)
    is_missing = np.ones(len(values.values), dtype=bool)
    is_missing[values.present] = False
    return Finding(message="there", fault="are missing", failing=np.flatnonzero(is_missing), checked=len(is_missing))


@row_check
def expect_column_values_to_be_unique(column: str) -> Finder:
    """Expect that no two samples have the same value. All samples that share a value fail."""

    def find(table: Table) -> Finding:
        values = table.column(column)
        keys = _keys(values)
        if len(set(keys)) == len(keys):
            return row_finding(values, np.zeros(len(keys), dtype=bool), "unique")
        counts = Counter(keys)
        return row_finding(values, [counts[key] > 1 for key in keys], "unique")

    return find


@row_check
def expect_column_values_to_be_increasing(column: str) -> Finder:
    """Expect numbers, each above the one before it in the order of the samples."""
    return lambda table: _in_order(table.column(column), 1.0, "above the value before")


@row_check
def expect_column_values_to_be_decreasing(column: str) -> Finder:
    """Expect numbers, each below the one before it in the order of the samples."""
    return lambda table: _in_order(table.column(column), -1.0, "below the value before")


def _in_order(values: Column, sign: float, message: str) -> Finding:
    numbers = values.numbers
    bad = np.isnan(numbers)
    real = np.flatnonzero(~bad)
    # A value that is not a number fails by itself; its neighbours are compared with each other.
    bad[real[1:]] = np.diff(sign * numbers[real]) <= 0
    return row_finding(values, bad, message)


@row_check
def expect_column_value_lengths_to_be_between(column: str, min: int | None = None, max: int | None = None) -> Finder:
    """Expect texts, lists or mappings of a length from `min` to `max`: characters, or items. Other values fail."""
    check_range(min, max, check_count)

    def find(table: Table) -> Finding:
        values = table.column(column)
        lengths = np.array([_length(value) for value in values.present_values], dtype=np.int64)
        return row_finding(values, is_outside(lengths, min or 0, max), f"of a length {range_text(min, max)}")

    return find


def _length(value: Any) -> int:
    """Return the length of a text or container; -1 for other values, which no range contains."""
    return len(value) if isinstance(value, str | list | tuple | Mapping) else -1


def _keys(values: Column) -> list[Any]:
    """Return the keys by which values are compared: texts unchanged, anything else with its type."""
    if values.types <= {str, type(None)}:
        return [("string", value) for value in values.present_values]
    return [_key(value) for value in values.present_values]


def _key(value: Any) -> tuple[str, str]:
    """Return a hashable key, different for "1" and 1, and equal for 1 and 1.0."""
    return ("string", value) if isinstance(value, str) else ("other", label_of(value))
