"""Expectations on timestamps."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.checks.arguments import check_flag, check_number
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Column, Table
from pytest_crucible.datasets.checks.expectation import row_check
from pytest_crucible.datasets.checks.read_times import read_time
from pytest_crucible.datasets.checks.values import row_finding
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
        times = _times(values)
        bad = np.isnan(times)
        if low is not None:
            bad |= times < low
        if high is not None:
            bad |= times > high
        return row_finding(values, bad, " ".join(words))

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
    if value is None:
        return None
    time = read_time(value)
    if time is None:
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
