"""Expectations on timestamps."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.check import Finder, Finding, row_finding
from pytest_crucible.datasets.columns import Column, Table
from pytest_crucible.datasets.expectation import check_flag, check_number, is_outside, row_check
from pytest_crucible.records.durations import seconds_of
from pytest_crucible.records.errors import SpecError


@row_check
def expect_column_values_to_be_valid_timestamps(column: str, allow_null: bool = True) -> Finder:
    """Expect timestamps: ISO 8601, American dates such as 3/31/2026, or seconds since 1970 in the years 2000 to 2099."""
    check_flag("allow_null", allow_null)

    def find(table: Table) -> Finding:
        values = table.column(column)
        if allow_null:
            return row_finding(values, np.isnan(_times(values)), "valid timestamps")
        bad = np.ones(len(values.values), dtype=bool)
        bad[values.present] = np.isnan(_times(values))
        return Finding(message="valid timestamps", failing=np.flatnonzero(bad), checked=len(bad))

    return find


@row_check
def expect_column_timestamps_to_be_chronological(column: str, strict: bool = False) -> Finder:
    """Expect timestamps, none before the one above it in the order of the samples; with `strict`, none equal to it."""
    check_flag("strict", strict)

    def find(table: Table) -> Finding:
        values = table.column(column)
        times = _times(values)
        bad = np.isnan(times)
        real = np.flatnonzero(~bad)
        steps = np.diff(times[real])
        bad[real[1:]] = steps <= 0 if strict else steps < 0
        return row_finding(values, bad, "after the timestamp before" if strict else "in chronological order")

    return find


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

    def find(table: Table) -> Finding:
        values = table.column(column)
        return row_finding(values, is_outside(_times(values), low, high), " ".join(words))

    return find


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

    def find(table: Table) -> Finding:
        values = table.column(column)
        times = _times(values)
        bad = np.isnan(times)
        real = np.flatnonzero(~bad)
        bad[real[1:]] = np.abs(np.diff(times[real]) - interval) > tolerance * interval + 1e-6
        return row_finding(values, bad, f"{interval:g} s after the timestamp before")

    return find


def _times(values: Column) -> npt.NDArray[np.float64]:
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
