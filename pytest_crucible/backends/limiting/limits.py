"""What a user allows to be asked of a server.

limit = { concurrency = 64, requests_per_second = 50, tokens_per_minute = 100000 }
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Infinite where nothing was said."""

    concurrency: float = math.inf
    requests_per_second: float = math.inf
    tokens_per_minute: float = math.inf

    def strictest(self, other: Limits) -> Limits:
        """Both hold: two adapters of one server may say different things.

        >>> Limits(concurrency=8).strictest(Limits(concurrency=4, requests_per_second=2.0))
        Limits(concurrency=4, requests_per_second=2.0, tokens_per_minute=inf)
        """
        return Limits(**{name: min(getattr(self, name), getattr(other, name)) for name in NAMES})

    def share(self, parts: int) -> Limits:
        """What one of several has that cannot see each other."""
        return Limits(
            concurrency=max(1, self.concurrency // parts) if self.concurrency < math.inf else math.inf,
            requests_per_second=self.requests_per_second / parts,
            tokens_per_minute=self.tokens_per_minute / parts,
        )


NAMES = tuple(field.name for field in fields(Limits))


def limits_of(adapter: Adapter) -> Limits:
    """Raises SpecError for a `limit` that cannot be meant."""
    given = adapter.asking.get("limit", {})
    if not isinstance(given, dict):
        raise SpecError(f"adapter {adapter.name!r} has limit = {given!r}: write limit = {{ requests_per_second = 50 }}")
    if unknown := sorted(set(given) - set(NAMES)):
        raise SpecError(
            f"adapter {adapter.name!r} has a limit of {unknown[0]!r}, which there is not: it takes {', '.join(NAMES)}"
        )
    for name, value in given.items():
        _check(adapter.name, name, value)
    return Limits(**given)


def _check(adapter: str, name: str, value: Any) -> None:
    whole = name == "concurrency"
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not (is_number and 0 < value < math.inf):
        wanted = "a whole number from 1" if whole else "a number above 0"
        raise SpecError(f"adapter {adapter!r} has a limit of {name} = {value!r}: write {wanted}")
