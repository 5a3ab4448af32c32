"""Amounts of money, tokens and requests, as they are counted and as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pytest_crucible.errors import SpecError

_UNITS = {
    "usd": "usd",
    "$": "usd",
    "token": "tokens",
    "tokens": "tokens",
    "request": "requests",
    "requests": "requests",
}
_PART = re.compile(
    r"\s*(\$)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+)\s*([km])?\s*(usd|\$|tokens?|requests?)?\s*", re.IGNORECASE
)
_BETWEEN = re.compile(r"\s*;\s*|\s*,\s+|(?<=[A-Za-z$])\s*,\s*")
_SCALE = {"": 1.0, "k": 1e3, "m": 1e6}
_ROUNDING = 1e-9
"""Of sums of dollars."""


class Amount(NamedTuple):
    """Spent, reserved or allowed. Infinite is without a limit."""

    usd: float = 0.0
    tokens: float = 0.0
    requests: float = 0.0

    def plus(self, other: Amount, times: float = 1.0) -> Amount:
        return Amount(
            self.usd + times * other.usd, self.tokens + times * other.tokens, self.requests + times * other.requests
        )

    def beyond(self, other: Amount) -> Amount:
        """What is more than the other.

        >>> Amount(3, 100, 1).beyond(Amount(1, 200, 1))
        Amount(usd=2, tokens=0.0, requests=0.0)
        """
        usd, tokens, requests = self.usd - other.usd, self.tokens - other.tokens, self.requests - other.requests
        return Amount(max(0.0, usd), max(0.0, tokens), max(0.0, requests))

    def within(self, limit: Amount) -> bool:
        return (
            self.usd <= limit.usd + _ROUNDING
            and self.tokens <= limit.tokens + _ROUNDING
            and self.requests <= limit.requests + _ROUNDING
        )


UNLIMITED = Amount(*(float("inf"),) * 3)


def read_budget(text: str) -> Amount:
    """`5 USD`, `200k tokens`, `1000 requests`, or several with commas between. Raises SpecError.

    >>> read_budget("5 USD, 200k tokens")
    Amount(usd=5.0, tokens=200000.0, requests=inf)
    """
    limits: dict[str, float] = {}
    for part in _BETWEEN.split(text.strip()) if isinstance(text, str) else [""]:
        match = _PART.fullmatch(part)
        units = {_UNITS[one.lower()] for one in (match[1], match[4]) if one} if match else set()
        unit = units.pop() if len(units) == 1 else None  # "$5 tokens" are two
        amount = float(match[2].replace(",", "")) * _SCALE[(match[3] or "").lower()] if match else 0.0
        if unit is None or not 0 < amount < float("inf") or unit in limits:
            raise SpecError(f"budget {text!r} cannot be read: write '5 USD', '200k tokens' or '1000 requests'")
        limits[unit] = amount
    return Amount(**{**UNLIMITED._asdict(), **limits})


def said(amount: Amount, limit: Amount) -> str:
    """An amount in the units that are limited.

    >>> said(Amount(usd=0.25, tokens=90), Amount(usd=5, tokens=float("inf"), requests=float("inf")))
    '0.25 USD'
    """
    return ", ".join(one for one, _ in _parts(amount, limit))


def spent_of(amount: Amount, limit: Amount) -> str:
    """What was spent of what, and in how many requests.

    >>> spent_of(Amount(0.25, 90, 3), Amount(usd=5, tokens=float("inf"), requests=float("inf")))
    '0.25 of 5 USD spent, in 3 requests'
    """
    parts = ", ".join(f"{one.split()[0]} of {most}" for one, most in _parts(amount, limit))
    return f"{parts} spent" + (f", in {amount.requests:,.0f} requests" if limit.requests == float("inf") else "")


def _parts(amount: Amount, limit: Amount) -> Iterator[tuple[str, str]]:
    for unit, one, most in zip(("USD", "tokens", "requests"), amount, limit, strict=True):
        if most < float("inf"):
            yield _written(one, unit), _written(most, unit)


def _written(number: float, unit: str) -> str:
    return f"{number:,.4g} USD" if unit == "USD" and number < 1000 else f"{number:,.0f} {unit}"
