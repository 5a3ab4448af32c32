"""The interval of a statistic, and the error of too few data. Light: it imports nothing, so that records may use it."""

from __future__ import annotations

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A two-sided interval. `low` and `high` may be infinite; they are never NaN."""

    low: float
    high: float
    level: float
    method: str


class NotEnoughData(Exception):
    """Too few or unsuitable data for a statistic."""
