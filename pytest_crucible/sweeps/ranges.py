"""Ranges of a search, such as `{ low = 1e-4, high = 1e-2, log = true }`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_crucible.records.errors import SpecError

EXAMPLE = "{ low = 1e-4, high = 1e-2, log = true }"


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`, both included; whole numbers where both ends are."""

    low: float
    high: float
    log: bool = False
    """Whether the range is logarithmic: equal factors, not equal differences, are equally likely."""

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def round_inside(self, number: float) -> float:
        """Return the number with four digits, so that a trial's name shows its exact setting.

        >>> Range(0.0001, 0.01).round_inside(0.00126355981)
        0.001264
        """
        return number if self.is_whole else min(max(float(f"{number:.4g}"), self.low), self.high)

    def as_table(self) -> dict[str, Any]:
        """Return the range as written in the configuration."""
        return asdict(self)


def is_range(value: Any) -> bool:
    """Return whether a table is a range, and not the prefix of other keys."""
    return isinstance(value, Mapping) and {"low", "high"} <= value.keys()


def read_range(name: str, key: str, table: Mapping[str, Any]) -> Range:
    """Return the range of a key. Raises SpecError."""
    low, high, log = table["low"], table["high"], table.get("log", False)
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    valid = numbers and math.isfinite(low) and math.isfinite(high) and low < high and isinstance(log, bool)
    if not valid or table.keys() - {"low", "high", "log"} or (log and low <= 0):
        raise SpecError(
            f"the sweep of {name!r} has {key} = {dict(table)!r}: write low below high, and above 0 with log, such as {EXAMPLE}"
        )
    return Range(low, high, log)
