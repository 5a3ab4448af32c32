"""Prices of models' tokens. A price that is not stated is unknown, which is not the same as 0."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any

from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens: prompt tokens (input) and reply tokens (output)."""

    input: float
    output: float

    def of(self, input_tokens: float | None, output_tokens: float | None) -> float | None:
        """Return the cost in dollars; None if a number of tokens is unknown.

        >>> Price(2.50, 10.00).of(1_000, 200)
        0.0045
        """
        if input_tokens is None or output_tokens is None:
            return None
        return (self.input * input_tokens + self.output * output_tokens) / _MILLION


# The price of what is computed on this machine.
FREE = Price(0.0, 0.0)


class Prices:
    """The packaged price table, and a project's own table, which takes precedence."""

    def __init__(self, own: Any = None) -> None:
        """`own` is the project's table `[prices]`. Raises SpecError for an invalid entry."""
        if not isinstance(own, Mapping | None):
            raise SpecError(f'prices = {own!r}: expected one table per model, as in [prices."gpt-4o"]')
        self._table = {name: read_price(f"[prices.{name!r}] is", entry) for name, entry in (own or {}).items()}

    def of(self, adapter: Adapter, model: str, *, is_free: bool = False) -> Price | None:
        """Return the adapter's own `price`, else the price of its model; None if unknown.

        A project's names may be patterns such as `gpt-4o*`; the longest match is used. The packaged table has whole names only:
        dated snapshots of one model have been sold at different prices.
        """
        if "price" in adapter.asking:
            return read_price(f"adapter {adapter.name!r} has price =", adapter.asking["price"])
        if is_free:
            return FREE
        if model in self._table:
            return self._table[model]
        patterns = [name for name in self._table if model and fnmatchcase(model, name)]
        if patterns:
            return self._table[max(patterns, key=len)]
        return packaged_prices().get(model)


def read_price(where: str, entry: Any) -> Price:
    """Read a table `{ input = 0.15, output = 0.60 }`. Raises SpecError; `where` opens its message."""
    fits = isinstance(entry, Mapping) and set(entry) == {"input", "output"}
    if not fits or not all(_is_amount(value) for value in entry.values()):
        raise SpecError(
            f"{where} {entry!r}, which is not a price: write {{ input = 0.15, output = 0.60 }}, "
            "US dollars for a million tokens"
        )
    return Price(float(entry["input"]), float(entry["output"]))


@functools.cache
def packaged_prices() -> Mapping[str, Price]:
    """Return the table that comes with the package."""
    text = resources.files("pytest_crucible.backends").joinpath("prices.toml").read_text(encoding="utf-8")
    return {name: Price(float(row["input"]), float(row["output"])) for name, row in tomllib.loads(text).items()}


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
