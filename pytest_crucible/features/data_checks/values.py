"""Checks of the values of a field: types, ranges, missing ones, and times."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from pytest_crucible.datasets.check import Finder, Finding, value_finder
from pytest_crucible.datasets.columns import Column, Table, label_of
from pytest_crucible.datasets.expectation import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_range,
    column_check,
    is_outside,
    range_text,
    row_check,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import seconds_of

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
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
    return value_finder(column, lambda values: _find_other_types(values, type), f"of type {type}")


def _find_other_types(values: Column, name: str) -> list[bool]:
    has_type = TYPES[name]
    if name == "timestamp":
        return [not has_type(value) for value in values.present_values]
    # One test for each type, not for each value.
    wrong = {kind for kind in values.types if kind is not type(None) and not has_type(_example(kind))}
    return [type(value) in wrong for value in values.present_values]


@column_check
def expect_column_count_to_equal(count: int) -> Finder:
    """Expect this number of fields: `id` and `input`, `expected` and `group` where samples have them, and all further ones."""
    check_count("count", count)

    def find(table: Table) -> Finding:
        fields = table.fields
        is_met = len(fields) == count
        expected = "" if is_met else f", and {count} are expected"
        message = f"there are {len(fields)} fields ({', '.join(fields)}){expected}"
        return Finding(message=message, checked=len(table), is_met=is_met)

    return find


def _example(kind: type) -> Any:
    """Return a value of a type, without the arguments that its constructor may need."""
    try:
        return kind()
    except TypeError:
        return object()


@row_check
def expect_column_values_to_be_between(column: str, min: float | None = None, max: float | None = None) -> Finder:
    """Expect numbers from `min` to `max`, both included. Anything that is not a number fails."""
    check_range(min, max)
    return value_finder(column, lambda values: is_outside(values.numbers, min, max), range_text(min, max))


@row_check
def expect_column_values_to_be_in_set(column: str, values: Sequence[Any]) -> Finder:
    """Expect one of these values. Numbers are equal as in JSON: 1 is 1.0, and neither "1" nor true."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise SpecError('values must be a list, such as ["SUPPORT", "REFUTE"]')
    allowed = {_key(value) for value in values}
    if not allowed:
        raise SpecError("values is empty; list the values that are allowed")
    labels = ", ".join(sorted(label for _, label in allowed)[:10]) + (", ..." if len(allowed) > 10 else "")

    def find_unknown(of_column: Column) -> list[bool]:
        keys = _keys(of_column)
        # Few values repeat often: each is looked up once.
        is_unknown = {key: key not in allowed for key in set(keys)}
        return [is_unknown[key] for key in keys]

    return value_finder(column, find_unknown, f"one of {labels}")


@row_check
def expect_column_values_to_match_regex(column: str, pattern: str) -> Finder:
    """Expect texts in which the regular expression is found. Other values fail; one that takes a second fails the check."""
    return text_finder(column, compile_regex(pattern).search, f"matched by {pattern!r}")


def text_finder(column: str, is_right: Callable[[str], Any], message: str) -> Finder:
    """Return a finder of values that are not texts, or not right."""
    return value_finder(
        column,
        lambda values: [not (isinstance(value, str) and is_right(value)) for value in values.present_values],
        message,
    )


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
    return value_finder(column, _find_repeated, "unique")


def _find_repeated(values: Column) -> npt.ArrayLike:
    keys = _keys(values)
    if len(set(keys)) == len(keys):
        return np.zeros(len(keys), dtype=bool)
    counts = Counter(keys)
    return [counts[key] > 1 for key in keys]


@row_check
def expect_column_values_to_be_increasing(column: str) -> Finder:
    """Expect numbers, each above the one before it in the order of the samples."""
    return value_finder(column, lambda values: _find_bad_steps(values.numbers), "above the value before")


@row_check
def expect_column_values_to_be_decreasing(column: str) -> Finder:
    """Expect numbers, each below the one before it in the order of the samples."""
    return value_finder(column, lambda values: _find_bad_steps(-values.numbers), "below the value before")


def _find_bad_steps(numbers: Floats, is_bad: Callable[[Floats], Flags] = lambda steps: steps <= 0) -> Flags:
    """Return which numbers are bad by the step from the one before; by default, those that are not above it."""
    bad: Flags = np.isnan(numbers)
    real = np.flatnonzero(~bad)
    # A value that is not a number fails by itself; its neighbours are compared with each other.
    bad[real[1:]] = is_bad(np.diff(numbers[real]))
    return bad


@row_check
def expect_column_value_lengths_to_be_between(column: str, min: int | None = None, max: int | None = None) -> Finder:
    """Expect texts, lists or mappings of a length from `min` to `max`: characters, or items. Other values fail."""
    check_range(min, max, check_count)
    text = f"of a length {range_text(min, max)}"
    return value_finder(
        column,
        lambda values: is_outside(np.array(list(map(_length, values.present_values)), dtype=np.int64), min or 0, max),
        text,
    )


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


@row_check
def expect_column_values_to_be_valid_timestamps(column: str, allow_null: bool = True) -> Finder:
    """Expect timestamps: ISO 8601, American dates such as 3/31/2026, or seconds since 1970 in the years 2000 to 2099."""
    check_flag("allow_null", allow_null)
    if allow_null:
        return value_finder(column, lambda values: np.isnan(_times(values)), "valid timestamps")

    def find(table: Table) -> Finding:
        values = table.column(column)
        bad = np.ones(len(values.values), dtype=bool)
        bad[values.present] = np.isnan(_times(values))
        return Finding(message="valid timestamps", failing=np.flatnonzero(bad), checked=len(bad))

    return find


@row_check
def expect_column_timestamps_to_be_chronological(column: str, strict: bool = False) -> Finder:
    """Expect timestamps, none before the one above it in the order of the samples; with `strict`, none equal to it."""
    check_flag("strict", strict)
    # At equal times no time has passed.
    least = np.nextafter(0, 1) if strict else 0.0
    text = "after the timestamp before" if strict else "in chronological order"
    return value_finder(column, lambda values: _find_bad_steps(_times(values), lambda steps: steps < least), text)


@row_check
def expect_column_timestamps_to_be_within_range(column: str, min: Any = None, max: Any = None) -> Finder:
    """Expect timestamps from `min` to `max`, both included. What is not a timestamp fails."""
    low, high = (_end(name, end) for name, end in (("min", min), ("max", max)))
    if low is None and high is None:
        raise SpecError("give min, max or both")
    if low is not None and high is not None and low > high:
        raise SpecError("min is after max; swap them")
    words = [f"from {min}"] if low is not None else []
    words += [f"until {max}"] if high is not None else []
    return value_finder(column, lambda values: is_outside(_times(values), low, high), " ".join(words))


@row_check
def expect_column_timestamp_intervals_to_be_regular(
    column: str, expected_interval: Any = "1 hour", tolerance: float = 0.05
) -> Finder:
    """Expect the same time between each timestamp and the next, in the order of the samples.

    `expected_interval` is a text such as "15 min", a number of seconds or a timedelta; `tolerance` is a share of it.
    """
    interval = _interval(expected_interval)
    check_number("tolerance", tolerance)
    if tolerance < 0:
        raise SpecError(f"tolerance is {tolerance!r}; write a share of the interval, such as 0.05")

    def is_bad(steps: Floats) -> Flags:
        return np.abs(steps - interval) > tolerance * interval + 1e-6

    text = f"{interval:g} s after the timestamp before"
    return value_finder(column, lambda values: _find_bad_steps(_times(values), is_bad), text)


def _times(values: Column) -> Floats:
    """Return seconds since 1970 for each value that is not missing; NaN for other values."""
    times = (read_time(value) for value in values.present_values)
    return np.array([np.nan if time is None else time for time in times], dtype=np.float64)


def _end(name: str, value: Any) -> float | None:
    time = None if value is None else read_time(value)
    if time is None and value is not None:
        raise SpecError(f"{name} is {value!r}; write a time such as '2026-03-31' or '2026-03-31T12:00:00Z'")
    return time


def _interval(value: Any) -> float:
    """Return seconds. Raises SpecError unless it is a duration above 0."""
    seconds: float | None = None
    if isinstance(value, dt.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = seconds_of(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not seconds or seconds <= 0:
        raise SpecError(f"expected_interval is {value!r}; write a time such as '15 min' or '1 hour'")
    return seconds


# Seconds since 1970 are read only in these years: other integers are counts or ids.
_FIRST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC).timestamp()
_LAST = dt.datetime(2100, 1, 1, tzinfo=dt.UTC).timestamp()
_AMERICAN = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?")

# `fromisoformat` also reads dates without dashes and weeks, which are more often numbers and ids.
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T].*)?")


def read_time(value: Any) -> float | None:
    """Return the seconds since 1970 of a timestamp; None for any other value. Times without a zone are UTC.

    The formats are ISO 8601 (also with a blank, and dates alone), American dates such as 3/31/2026, `datetime` objects, and seconds
    since 1970 from 2000 to 2100.

    >>> read_time("2026-03-31T12:00:00Z") == read_time("2026-03-31 12:00") == read_time("3/31/2026 12:00")
    True
    >>> read_time("2026-02-30"), read_time(7), read_time(True)
    (None, None, None)
    """
    if isinstance(value, str):
        return _read_text(value.strip())
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if _FIRST <= value < _LAST else None
    if isinstance(value, dt.datetime):
        return _utc_seconds(value)
    if isinstance(value, dt.date):
        return _utc_seconds(dt.datetime(value.year, value.month, value.day))
    return None


def _read_text(text: str) -> float | None:
    try:
        if _ISO.fullmatch(text):
            return _utc_seconds(dt.datetime.fromisoformat(text))
        american = _AMERICAN.fullmatch(text)
        if american is None:
            return None
        month, day, year, hour, minute, second = (int(part or 0) for part in american.groups())
        return _utc_seconds(dt.datetime(year, month, day, hour, minute, second))
    except (ValueError, OverflowError):
        return None


def _utc_seconds(time: dt.datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp()


PATTERN_TIMEOUT_S = 1.0
"""For one text; a million characters take milliseconds with most patterns."""


class UserPattern:
    """A regular expression of the user's, as `re` reads it, under a time limit for each text."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        ascii_only = regex.ASCII if pattern.flags & re.ASCII else 0
        # All other flags have the same numbers in both libraries.
        self._pattern = regex.compile(pattern.pattern, (pattern.flags & ~re.ASCII) | ascii_only)

    def search(self, text: str) -> bool:
        """Return whether the pattern is found. Raises SpecError after the time limit."""
        return self._run(self._pattern.search, text)

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text. Raises SpecError after the time limit."""
        return self._run(self._pattern.fullmatch, text)

    def _run(self, method: Callable[..., Any], text: str) -> bool:
        try:
            return method(text, timeout=PATTERN_TIMEOUT_S) is not None
        except TimeoutError:
            raise SpecError(
                f"the pattern {self._pattern.pattern!r:.80} takes more than {PATTERN_TIMEOUT_S:g} s on the text {text!r:.60}; "
                "make it simpler"
            ) from None


def compile_regex(pattern: Any) -> UserPattern:
    """Return the compiled pattern. Raises SpecError for an invalid one."""
    try:
        return UserPattern(re.compile(pattern))
    except (re.error, regex.error, TypeError) as error:
        raise SpecError(f"{pattern!r} is not a regular expression ({error}); correct it") from None
