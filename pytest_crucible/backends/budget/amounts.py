"""Amounts of money, tokens and requests, and the text form in which people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pytest_crucible.records.errors import SpecError

_UNITS = {
    "usd": "usd",
    "$": "usd",
    "token": "tokens",
    "tokens": "tokens",
    "request": "requests",
    "requests": "requests",
}
# Either a sign before the number or a unit behind it; thousands may be grouped.
_PART = re.compile(
    r"\s*(\$)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+)\s*([km])?\s*(usd|\$|tokens?|requests?)?\s*", re.IGNORECASE
)
# A comma between digits groups thousands, so a separating comma needs a blank or a unit next to it.
_BETWEEN = re.compile(r"\s*;\s*|\s*,\s+|(?<=[A-Za-z$])\s*,\s*")
_SCALE = {"": 1.0, "k": 1e3, "m": 1e6}
# Sums of dollars are off by a few ulp: five requests of 0.1 USD must fit into 0.5 USD.
_ROUNDING = 1e-9


class Amount(NamedTuple):
    """An amount spent, reserved or allowed; an infinite part has no limit."""

    usd: float = 0.0
    tokens: float = 0.0
    requests: float = 0.0

    def plus(self, other: Amount, times: float = 1.0) -> Amount:
        return Amount(
            self.usd + times * other.usd, self.tokens + times * other.tokens, self.requests + times * other.requests
        )

    def beyond(self, other: Amount) -> Amount:
        """Return the part of each unit that exceeds the other amount.

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
    """Read a budget such as `5 USD`, `200k tokens` or `1000 requests`.

    Several limits are separated by commas. Raises SpecError.

    >>> read_budget("5 USD, 200k tokens")
    Amount(usd=5.0, tokens=200000.0, requests=inf)
    """
    limits: dict[str, float] = {}
    for part in _BETWEEN.split(text.strip()) if isinstance(text, str) else [""]:
        match = _PART.fullmatch(part)
        units = {_UNITS[word.lower()] for word in (match[1], match[4]) if word} if match else set()
        # "$5 tokens" names two units.
        unit = units.pop() if len(units) == 1 else None
        amount = float(match[2].replace(",", "")) * _SCALE[(match[3] or "").lower()] if match else 0.0
        if unit is None or not 0 < amount < float("inf") or unit in limits:
            raise SpecError(f"budget {text!r} cannot be read: write '5 USD', '200k tokens' or '1000 requests'")
        limits[unit] = amount
    return Amount(**{**UNLIMITED._asdict(), **limits})


def format_amount(amount: Amount, limit: Amount) -> str:
    """Return an amount as text, in the units that are limited.

    >>> format_amount(Amount(usd=0.25, tokens=90), Amount(usd=5, tokens=float("inf"), requests=float("inf")))
    '0.25 USD'
    """
    return ", ".join(spent for spent, _ in _parts(amount, limit))


def format_spent(amount: Amount, limit: Amount) -> str:
    """Return how much of a limit was spent, and in how many requests.

    >>> format_spent(Amount(0.25, 90, 3), Amount(usd=5, tokens=float("inf"), requests=float("inf")))
    '0.25 of 5 USD spent, in 3 requests'
    """
    parts = ", ".join(f"{spent.split()[0]} of {most}" for spent, most in _parts(amount, limit))
    return f"{parts} spent" + (f", in {amount.requests:,.0f} requests" if limit.requests == float("inf") else "")


def _parts(amount: Amount, limit: Amount) -> Iterator[tuple[str, str]]:
    for unit, spent, most in zip(("USD", "tokens", "requests"), amount, limit, strict=True):
        if most < float("inf"):
            yield _format_number(spent, unit), _format_number(most, unit)


def _format_number(number: float, unit: str) -> str:
    return f"{number:,.4g} USD" if unit == "USD" and number < 1000 else f"{number:,.0f} {unit}"
