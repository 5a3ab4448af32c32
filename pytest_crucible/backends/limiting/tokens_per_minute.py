"""The number of tokens per minute. A request is first charged the average of earlier ones; its own are known at its end."""

from __future__ import annotations

import math

# Assumed tokens of a request before the first answer.
GUESS = 1000.0
# The weight of the latest request in the moving mean of tokens: it follows about the last 32.
RECENT = 1 / 32
# Of sums of token fractions.
ROUNDING = 1e-6


class TokenMeter:
    """A balance of tokens that grows at a rate and may be overdrawn: nothing is sent while it is negative."""

    __slots__ = ("balance", "filled_at", "mean", "most", "server_limit")

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        """Tokens per minute that the user allows."""
        self.server_limit = math.inf
        """Tokens per minute that the server reports as its limit."""
        self.balance = 0.0
        self.filled_at = 0.0
        self.mean = GUESS

    def delay(self, now: float) -> float:
        """Return the seconds until the balance is not negative."""
        a_minute = min(self.most, self.server_limit)
        if a_minute == math.inf:
            return 0.0
        # One second's worth at most: the bucket smooths, it does not save up.
        self.balance = min(a_minute / 60, self.balance + (now - self.filled_at) * a_minute / 60)
        self.filled_at = now
        return 0.0 if self.balance >= -ROUNDING else -self.balance * 60 / a_minute

    def take(self) -> float:
        """Charge the expected tokens of a request."""
        self.balance -= self.mean
        return self.mean

    def settle(self, charged: float, used: float | None) -> None:
        """Replace the charge by the actual tokens; a failed request has used none."""
        self.balance += charged - (used or 0.0)
        if used:
            self.mean += RECENT * (used - self.mean)
