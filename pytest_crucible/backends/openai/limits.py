"""Rate limits in response headers: how much is left, and when to send the next request."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Characters of a duration: the pattern takes quadratic time on a header full of digits.
_LONGEST = 64
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)")
# A larger number of seconds is a point in time.
# Three years in seconds, longer than any wait; timestamps are above 1.7e9, and those in milliseconds (OpenRouter) above 1.7e12.
_TIMESTAMP, _TIMESTAMP_MS = 1e8, 1e11
# What is left of a quota: x-ratelimit-remaining-tokens, anthropic-ratelimit-requests-remaining, RateLimit-Remaining, ...
_REMAINING = re.compile(r"(?:x-)?(?:[a-z]{1,20}-)?rate-?limit-(?:[a-z_-]{1,40}-)?remaining(?:-[a-z_-]{1,40})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLimits:
    """The `x-ratelimit-*` headers of one response; None if a header is absent.

    Headers do not name the period: most servers count requests and tokens per minute, some requests per day.
    """

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests_s: float | None = None
    """Seconds until all requests are available again."""
    reset_tokens_s: float | None = None


def read_headers(headers: Mapping[str, str]) -> ReportedLimits | None:
    """Return the limits in a response's headers; None if there are none.

    >>> read_headers({"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s"}).reset_requests_s
    1.0
    """
    numbers: dict[str, int] = {}
    resets: dict[str, float] = {}
    for unit in ("requests", "tokens"):
        for name in ("limit", "remaining"):
            value = headers.get(f"x-ratelimit-{name}-{unit}", "")
            # `²` is a digit that int() refuses, and so it does thousands of digits.
            if value.isascii() and value.isdigit() and len(value) < 19:
                numbers[f"{name}_{unit}"] = int(value)
        reset = parse_seconds(headers.get(f"x-ratelimit-reset-{unit}", ""))
        if reset is not None:
            resets[f"reset_{unit}_s"] = reset
    # The field names are put together above, which mypy cannot follow.
    return ReportedLimits(**numbers, **resets) if numbers or resets else None  # type: ignore[arg-type]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait before the next request; None if the server does not report them.

    `retry-after-ms` and `retry-after` (seconds, or an HTTP date) come first, then the reset of the limit that is used up.

    >>> retry_after({"retry-after-ms": "250"})
    0.25
    """
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    seconds = parse_seconds(header)
    if seconds is None and header:
        seconds = _seconds_until(header)
    if seconds is None:
        seconds = _reset(read_headers(headers))
    return seconds if seconds is not None else _reset_of_exhausted(headers)


def has_exhausted_quota(headers: Mapping[str, str]) -> bool:
    """Return whether a response's headers report a quota of which nothing is left.

    >>> has_exhausted_quota({"x-ratelimit-remaining-requests": "12", "x-ratelimit-remaining-tokens": "0"})
    True
    """
    return bool(_find_exhausted(headers))


def _find_exhausted(headers: Mapping[str, str]) -> list[str]:
    """Return the names of the headers that say that nothing is left."""
    return [name for name, value in headers.items() if value.strip() == "0" and _REMAINING.fullmatch(name)]


def _reset_of_exhausted(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until the last exhausted quota is renewed."""
    texts = [headers.get(name.replace("remaining", "reset"), "") for name in _find_exhausted(headers)]
    resets = [parse_seconds(text) for text in texts]
    return max((reset for reset in resets if reset is not None), default=None)


def parse_seconds(text: str) -> float | None:
    """Parse `12`, `0.5`, `1s`, `6m0s`, `20ms` or a point in time (seconds since 1970); None for anything else.

    >>> parse_seconds("1m30s")
    90.0
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    # Checked before the units: a bare number is seconds, or a timestamp.
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
        value = float(text)
        if value > _TIMESTAMP_MS:
            value /= 1000
        return max(0.0, value - time.time()) if value > _TIMESTAMP else value
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _seconds_until(date: str) -> float | None:
    try:
        return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _reset(limits: ReportedLimits | None) -> float | None:
    """Return the reset of the limit that is used up; the later one if the remaining amounts are unknown."""
    if limits is None:
        return None
    both = ((limits.remaining_requests, limits.reset_requests_s), (limits.remaining_tokens, limits.reset_tokens_s))
    resets = [(left, reset) for left, reset in both if reset is not None and not left]
    used_up = [reset for left, reset in resets if left == 0]
    return max(used_up or [reset for _, reset in resets], default=None)
