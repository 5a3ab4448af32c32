"""User limits for a server, from an adapter's settings.

limit = { concurrency = 64, requests_per_second = 50, tokens_per_minute = 100000 }
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server: infinite where none is set."""

    concurrency: float = math.inf
    requests_per_second: float = math.inf
    tokens_per_minute: float = math.inf

    def strictest(self, other: Limits) -> Limits:
        """Return the smaller of each limit: two adapters of one server may set different ones.

        >>> Limits(concurrency=8).strictest(Limits(concurrency=4, requests_per_second=2.0))
        Limits(concurrency=4, requests_per_second=2.0, tokens_per_minute=inf)
        """
        return Limits(**{name: min(getattr(self, name), getattr(other, name)) for name in NAMES})

    def share(self, parts: int) -> Limits:
        """Return one worker's part, for workers that share no state."""
        return Limits(
            concurrency=max(1, self.concurrency // parts) if self.concurrency < math.inf else math.inf,
            requests_per_second=self.requests_per_second / parts,
            tokens_per_minute=self.tokens_per_minute / parts,
        )


NAMES = tuple(field.name for field in fields(Limits))


def read_limits(adapter: Adapter) -> Limits:
    """Read `limit` of an adapter. Raises SpecError."""
    table = adapter.asking.get("limit", {})
    if not isinstance(table, dict):
        raise SpecError(f"adapter {adapter.name!r} has limit = {table!r}: write limit = {{ requests_per_second = 50 }}")
    if unknown := sorted(set(table) - set(NAMES)):
        raise SpecError(f"adapter {adapter.name!r} has an unknown limit {unknown[0]!r}; expected {', '.join(NAMES)}")
    for name, value in table.items():
        _check(adapter.name, name, value)
    return Limits(**table)


def _check(adapter: str, name: str, value: Any) -> None:
    whole = name == "concurrency"
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not (is_number and 0 < value < math.inf):
        expected = "a whole number from 1" if whole else "a number above 0"
        raise SpecError(f"adapter {adapter!r} has a limit of {name} = {value!r}: write {expected}")
