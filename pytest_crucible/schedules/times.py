"""Reads `--at "mon-fri 02:30"`, and computes when that is next."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pytest_crucible.records.errors import SpecError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = "daily"
EXAMPLE = '"mon-fri 02:30"'
_TIME = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})")


@dataclass(frozen=True, slots=True)
class Times:
    """A time of day on some days of the week."""

    days: tuple[int, ...]
    """Monday is 0."""
    hour: int
    minute: int

    def after(self, moment: datetime.datetime, zone: datetime.tzinfo | None) -> Iterator[datetime.datetime]:
        """Yield the times after a moment, without end. The default is the time zone of this machine."""
        day = moment.astimezone(zone).date()
        while True:
            at = datetime.datetime.combine(day, datetime.time(self.hour, self.minute), zone).astimezone(zone)
            if day.weekday() in self.days and at > moment:
                yield at
            day += datetime.timedelta(days=1)


def next_times(
    times: Times, moment: datetime.datetime, zone: datetime.tzinfo | None = None, *, number: int = 3
) -> list[datetime.datetime]:
    """Return the next times after a moment, in a time zone, by default this machine's.

    >>> start = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
    >>> [f"{at:%a %H:%M}" for at in next_times(parse_times("mon-fri 02:30"), start, start.tzinfo)]
    ['Mon 02:30', 'Tue 02:30', 'Wed 02:30']
    """
    return list(islice(times.after(moment, zone), number))


def parse_times(text: str) -> Times:
    """Return the times of `[DAYS] HH:MM`. DAYS are days and ranges with commas, or daily. Raises SpecError."""
    *days, time = text.lower().split() or [""]
    match = _TIME.fullmatch(time)
    if match is None or len(days) > 1:
        raise _invalid(text, f"{time!r} is not a time" if match is None else "days have no spaces between them")
    hour, minute = int(match["hour"]), int(match["minute"])
    if hour > 23 or minute > 59:
        raise _invalid(text, f"{time!r} is not a time of day")
    return Times(_parse_days(days[0] if days else EVERY_DAY, text), hour, minute)


def _parse_days(words: str, text: str) -> tuple[int, ...]:
    if words == EVERY_DAY:
        return tuple(range(len(DAYS)))
    return tuple(sorted({day for word in words.split(",") for day in _parse_range(word, text)}))


def _parse_range(word: str, text: str) -> Iterator[int]:
    """Yield the days of `mon` or `fri-mon`."""
    names = word.split("-")
    for name in names:
        if name not in DAYS:
            raise _invalid(text, f"unknown day {name!r}")
    if len(names) > 2:
        raise _invalid(text, f"{word!r} is not a range of two days")
    first, last = DAYS.index(names[0]), DAYS.index(names[-1])
    for offset in range((last - first) % len(DAYS) + 1):
        yield (first + offset) % len(DAYS)


def _invalid(text: str, reason: str) -> SpecError:
    return SpecError(f'--at "{text}": {reason}: write for example {EXAMPLE}')
