"""Checks of the arguments that several expectations take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest


def check_range(low: Any, high: Any) -> None:
    """Raise SpecError unless at least one end is a number, and the ends are in order."""
    if low is None and high is None:
        raise SpecError("give min, max or both")
    for name, end in (("min", low), ("max", high)):
        if end is not None:
            check_number(name, end)
    if low is not None and high is not None and low > high:
        raise SpecError("min is above max; swap them")


def check_number(name: str, value: Any) -> None:
    """Raise SpecError unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SpecError(f"{name} is {value!r}; write a number")


def check_share(name: str, value: Any) -> None:
    """Raise SpecError unless the value is a number between 0 and 1."""
    check_number(name, value)
    if not 0 < value < 1:
        raise SpecError(f"{name} is {value!r}; write a share between 0 and 1, such as 0.05")


def check_count(name: str, value: Any) -> None:
    """Raise SpecError unless the value is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SpecError(f"{name} is {value!r}; write a whole number")


def check_flag(name: str, value: Any) -> None:
    """Raise SpecError unless the value is True or False."""
    if not isinstance(value, bool):
        raise SpecError(f"{name} is {value!r}; write True or False")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise SpecError for a value that is not one of the choices."""
    names = list(choices)
    if value not in names:
        hint = suggest(str(value), names, always=f"write one of {', '.join(names)}")
        raise SpecError(f"{name} is {value!r}; {hint}")


def range_text(low: float | None, high: float | None) -> str:
    """Return a range in words.

    >>> range_text(0, 99), range_text(None, 5), range_text(1, None)
    ('between 0 and 99', 'at most 5', 'at least 1')
    """
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"
