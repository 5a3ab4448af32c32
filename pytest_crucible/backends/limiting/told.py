"""What a server says of its limits: `x-ratelimit-limit-requests` and its like, where they can be believed.

The same headers mean different things: a limit of a minute at one provider is one of a day at another, and `reset` is the time
until all of it is back, or until the window ends, or until one more request is allowed. Where limit, remaining and reset
agree with each other on a period, the rate is certain: (limit - remaining) / reset is what comes back a second, and that
is the limit over a second, a minute, an hour or a day. Everything else is left to be learned.
"""

from __future__ import annotations

from typing import Protocol

PERIODS_S = (1, 60, 3600, 86400)
AGREES = 0.1
"""How far two readings may be apart, in parts of one."""
FEW = 3
"""So little used says nothing: the times are rounded."""


class LimitsTold(Protocol):
    """What the headers of one answer say; None where they do not."""

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


def told_rate(limit: int | None, remaining: int | None, reset_s: float | None) -> float | None:
    """How many requests, or tokens, a second these allow; None where they do not agree.

    >>> told_rate(limit=3000, remaining=2990, reset_s=0.2)
    50.0
    """
    if limit is None or remaining is None or not reset_s or limit - remaining < FEW:
        return None
    back = (limit - remaining) / reset_s
    return next((limit / period for period in PERIODS_S if abs(back * period / limit - 1) <= AGREES), None)
