"""Rate limits from response headers such as `x-ratelimit-limit-requests`, if they are consistent.

Providers use the same headers with different meanings: a limit may be per minute or per day, and `reset` may be the time until
everything is available, until the window ends, or until one more request is allowed. Only if limit, remaining and reset agree
on a period is the rate certain: (limit - remaining) / reset is recovered per second, and equals the limit over a second,
a minute, an hour or a day. Otherwise the limiter learns the limit by itself.
"""

from __future__ import annotations

from typing import Protocol

# A second, a minute, an hour, a day.
PERIODS_S = (1, 60, 3600, 86400)
# Largest relative difference of two readings that agree.
AGREES = 0.1
# Usage below this is not conclusive: the reported times are rounded.
FEW = 3


class RateLimitHeaders(Protocol):
    """Rate limit headers of one response; None if a header is absent."""

    @property
    def limit_requests(self) -> int | None: ...
    @property
    def remaining_requests(self) -> int | None: ...
    @property
    def reset_requests_s(self) -> float | None: ...
    @property
    def limit_tokens(self) -> int | None: ...
    @property
    def remaining_tokens(self) -> int | None: ...
    @property
    def reset_tokens_s(self) -> float | None: ...


def certain_rate(limit: int | None, remaining: int | None, reset_s: float | None) -> float | None:
    """Return the requests (or tokens) per second that the headers allow; None if they do not agree.

    >>> certain_rate(limit=3000, remaining=2990, reset_s=0.2)
    50.0
    """
    # A small usage is dominated by the rounding of the reset time.
    if limit is None or remaining is None or not reset_s or limit - remaining < FEW:
        return None
    back = (limit - remaining) / reset_s
    return next((limit / period for period in PERIODS_S if abs(back * period / limit - 1) <= AGREES), None)
