"""What a server says of its limits: when to come again, and how much is left."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)")
_EPOCH = 1e8
"""A number of seconds above it is a point in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The `x-ratelimit-*` headers of one answer; None where they say nothing. Which time a limit is for, no header says:
    most servers count requests and tokens by the minute, some requests by the day.
    """

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    """Seconds until all of them are left again."""
    reset_tokens_s: float | None = None


def limits_of(headers: Mapping[str, str]) -> Limits | None:
    """None where an answer tells of no limit.

    >>> limits_of({"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s"}).reset_requests_s
    1.0
    """
    found: dict[str, int] = {}
    resets: dict[str, float] = {}
    for what in ("requests", "tokens"):
        for name in ("limit", "remaining"):
            value = headers.get(f"x-ratelimit-{name}-{what}", "")
            if value.isdigit():
                found[f"{name}_{what}"] = int(value)
        reset = seconds_of(headers.get(f"x-ratelimit-reset-{what}", ""))
        if reset is not None:
            resets[f"reset_{what}_s"] = reset
    return Limits(**found, **resets) if found or resets else None  # type: ignore[arg-type]  # names of fields, put together


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, as `retry-after-ms` or `retry-after` (seconds, or an HTTP date) say, else when the limit that is used
    up is reset; None where nothing is said.

    >>> retry_after({"retry-after-ms": "250"})
    0.25
    """
    milliseconds = seconds_of(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "")
    seconds = seconds_of(said)
    if seconds is None and said:
        seconds = _until(said)
    return seconds if seconds is not None else _reset(limits_of(headers))


def seconds_of(said: str) -> float | None:
    """`12`, `0.5`, `1s`, `6m0s`, `20ms`, or a point in time as seconds since 1970; None for anything else.

    >>> seconds_of("1m30s")
    90.0
    """
    said = said.strip()
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", said):
        value = float(said)
        return max(0.0, value - time.time()) if value > _EPOCH else value
    parts = _PART.findall(said)
    if not parts or "".join(number + unit for number, unit in parts) != said:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _until(date: str) -> float | None:
    try:
        return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _reset(limits: Limits | None) -> float | None:
    """Of the limit that is used up; where it is not told how much is left, the later one. What is not used up refuses nobody."""
    if limits is None:
        return None
    both = ((limits.remaining_requests, limits.reset_requests_s), (limits.remaining_tokens, limits.reset_tokens_s))
    known = [(left, reset) for left, reset in both if reset is not None and not left]
    used_up = [reset for left, reset in known if left == 0]
    return max(used_up or [reset for _, reset in known], default=None)
