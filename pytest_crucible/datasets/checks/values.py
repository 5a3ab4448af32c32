"""Expectations on each value of a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.checks.arguments import check_count, check_range, range_text
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Column, Table, label_of
from pytest_crucible.datasets.checks.expectation import row_check
from pytest_crucible.datasets.checks.user_patterns import compile_regex
from pytest_crucible.records.errors import SpecError


def row_finding(values: Column, bad: npt.ArrayLike, message: str, fault: str = "") -> Finding:
    """Return the finding on each value that is not missing; `bad` is True for those that fail."""
    is_bad = np.asarray(bad, dtype=bool)
    return Finding(
        message=message,
        fault=fault,
        failing=values.present[is_bad],
        checked=len(is_bad),
        missing=values.missing,
    )


@row_check
def expect_column_values_to_be_between(column: str, min: float | None = None, max: float | None = None) -> Finder:
    """Expect numbers from `min` to `max`, both included. Anything that is not a number fails."""
    check_range(min, max)

    def find(table: Table) -> Finding:
        values = table.column(column)
        numbers = values.numbers
        bad = np.isnan(numbers)
        if min is not None:
            bad |= numbers < min
        if max is not None:
            bad |= numbers > max
        return row_finding(values, bad, range_text(min, max))

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
        is_outside = {key: key not in allowed for key in set(keys)}
        return row_finding(of_column, [is_outside[key] for key in keys], f"one of {labels}")

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
    return lambda table: _missing(table, column)


@row_check
def expect_no_missing_values(column: str) -> Finder:
    """Expect a value in every sample: neither null nor NaN nor a missing field. An empty text is a value."""
    return lambda table: _missing(table, column)


def _missing(table: Table, column: str) -> Finding:
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
    check_range(min, max)
    for name, end in (("min", min), ("max", max)):
        if end is not None:
            check_count(name, end)

    def find(table: Table) -> Finding:
        values = table.column(column)
        lengths = np.array([_length(value) for value in values.present_values], dtype=np.int64)
        bad = lengths < (min or 0)
        if max is not None:
            bad |= lengths > max
        return row_finding(values, bad, f"of a length {range_text(min, max)}")

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
