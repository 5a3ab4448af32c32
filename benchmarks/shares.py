"""How often something happened in a simulation, beside the limit that it has."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_crucible import stats


@dataclass(frozen=True, slots=True)
class Share:
    """How often something happened among so many. Over its limit (or under it) by more than chance it is liberal."""

    count: int = 0
    of: int = 0
    most: float = 1.0
    least: float = 0.0

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else math.nan

    @property
    def liberal(self) -> bool:
        if not self.of:
            return False
        interval = stats.wilson_interval(self.count, self.of, level=0.99)
        return interval.low > self.most or interval.high < self.least

    def __str__(self) -> str:
        shown = f"{self.value:.3f}".removeprefix("0") if self.of else ""
        return f"**{shown}**" if self.liberal else shown
