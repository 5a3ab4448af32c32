"""Shared parts of all answers: how a case spells its numbers, levels and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.stats.interval import Interval

Case = Mapping[str, Any]
Answer = dict[str, Any]


def numbers(values: Sequence[Any]) -> list[float]:
    """The values of a case as floats: null is missing, "inf" and "-inf" are infinite."""
    return [math.nan if value is None else float(value) for value in values]


def level(options: Case) -> float:
    return float(options.get("conf_level", 0.95))


def ends(interval: Interval | None, *, prefix: str = "ci_") -> Answer:
    """The two ends under the keys of the file; None where there is no interval."""
    return {f"{prefix}low": interval and interval.low, f"{prefix}high": interval and interval.high}
