"""Reads timestamps in the forms in which datasets have them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

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
        return _seconds(value)
    if isinstance(value, dt.date):
        return _seconds(dt.datetime(value.year, value.month, value.day))
    return None


def _read_text(text: str) -> float | None:
    try:
        if _ISO.fullmatch(text):
            return _seconds(dt.datetime.fromisoformat(text))
        american = _AMERICAN.fullmatch(text)
        if american is None:
            return None
        month, day, year, hour, minute, second = (int(part or 0) for part in american.groups())
        return _seconds(dt.datetime(year, month, day, hour, minute, second))
    except (ValueError, OverflowError):
        return None


def _seconds(time: dt.datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp()
