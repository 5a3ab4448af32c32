"""The result of comparing a field, and its decision against a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pytest_crucible.records.types import State

Test = Literal[
    "Kolmogorov-Smirnov", "Kolmogorov-Smirnov, permuted", "chi-squared", "chi-squared, permuted", "MMD, permuted"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDrift:
    """One field of two samples, `old` and `new`."""

    test: Test
    statistic: float
    p_value: float
    n: tuple[int, int]
    """Values of the old and of the new sample."""
    distance: float | None = None
    """The largest difference of two distribution functions (numbers), or the total variation distance (categories); 0 to 1.

    None for texts, whose distance has no scale.
    """
    noise: float = 0.0
    """An upper bound on the expected distance of two samples of these sizes without drift."""
    seed: int | None = None
    """The seed of a permuted test."""

    def lower(self, alpha: float) -> float | None:
        """Return the lower bound of the distance at level 1 - alpha; None without a distance."""
        if self.distance is None:
            return None
        return max(0.0, self.distance - self.noise - self._slack(alpha))

    def upper(self, alpha: float) -> float | None:
        """Return the upper bound of the distance at level 1 - alpha; None without a distance."""
        return None if self.distance is None else min(1.0, self.distance + self._slack(alpha))

    def _slack(self, alpha: float) -> float:
        """Return the deviation of a distance from its expectation that is exceeded, on one side, with probability alpha at most.

        One value changes either distance by at most 1 / n, so the bounded difference inequality holds (McDiarmid 1989). The
        expectation is at least the true distance, because both are convex in the two distributions (Jensen), and at most
        `noise` above it.
        """
        return math.sqrt(math.log(1 / alpha) / 2 * sum(1 / n for n in self.n))


def decide_margin(drift: FieldDrift, margin: float, *, alpha: float, family_size: int) -> State:
    """Return met (the distance is proven to be below the margin), missed (proven to be above), or undecided.

    Above is claimed for any of `family_size` fields with error rate alpha over all (Bonferroni). Below needs no correction:
    all have to be.
    """
    lower, upper = drift.lower(alpha / family_size), drift.upper(alpha)
    if lower is None or upper is None:
        return "undecided"
    return "missed" if lower > margin else "met" if upper < margin else "undecided"
