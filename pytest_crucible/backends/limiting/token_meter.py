"""How many tokens a minute: they are known when an answer is there, so that each request is first charged what others have used."""

from __future__ import annotations

import math

GUESS = 1000.0
"""Tokens of a request, before the first answer."""
LATELY = 1 / 32
ROUNDING = 1e-6


class TokenMeter:
    """Tokens that come at a rate and may be overdrawn: nothing is sent while the balance is negative."""

    __slots__ = ("balance", "filled_at", "mean", "most", "told")

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        """Tokens a minute that the user allows."""
        self.told = math.inf
        """Tokens a minute that the server says it allows."""
        self.balance = 0.0
        self.filled_at = 0.0
        self.mean = GUESS

    def delay(self, now: float) -> float:
        """Seconds until the balance is in credit."""
        a_minute = min(self.most, self.told)
        if a_minute == math.inf:
            return 0.0
        self.balance = min(a_minute / 60, self.balance + (now - self.filled_at) * a_minute / 60)
        self.filled_at = now
        return 0.0 if self.balance >= -ROUNDING else -self.balance * 60 / a_minute

    def take(self) -> float:
        """Charge what a request is expected to use."""
        self.balance -= self.mean
        return self.mean

    def settle(self, charged: float, used: float | None) -> None:
        """The answer says what was used; a request that failed has used nothing."""
        self.balance += charged - (used or 0.0)
        if used:
            self.mean += LATELY * (used - self.mean)
