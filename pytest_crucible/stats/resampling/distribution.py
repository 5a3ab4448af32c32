"""The distribution of a resampled statistic: its values and their weights.

Enumeration, FFT and random draws all produce one; the intervals in `intervals` read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pytest_crucible.stats.arrays import Array, check_share

# Values closer than this, relative to the largest, are one value: sums differ by rounding in any order.
TIE = 1e-12
# Slack of a computed distribution function: FFT and linear binning leave less than this.
ENOUGH = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """A discrete distribution: ascending distinct values and their weights."""

    values: Array
    weights: Array
    """The number of resamples with that value; probabilities where `resamples` is None."""
    resamples: float | None = None
    """Equally likely resamples behind the weights; None for a distribution computed without listing them."""
    resolution: float = 0.0
    """Tail shares below this are rounding error: the distribution does not resolve them."""
    cumulated: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cumulated", np.cumsum(self.weights))

    @property
    def mean(self) -> float:
        """The mean of the resampled statistic."""
        return float(
            np.sum(self.values * self.weights) / self.cumulated[-1]
        )  # `@` would wake threads for a microsecond

    @property
    def deviation(self) -> float:
        """The standard deviation of the resampled statistic (divided by the weight, not by the weight less one)."""
        return math.sqrt(float(np.sum((self.values - self.mean) ** 2 * self.weights) / self.cumulated[-1]))

    def share_below(self, value: float) -> float:
        """Return P(T* < value) + P(T* = value) / 2.

        >>> tabulate_draws(np.array([1.0, 2.0, 2.0, 3.0])).share_below(2.0)
        0.5
        """
        slack = _slack(self.values, value)
        below = int(np.searchsorted(self.values, value - slack, side="left"))
        through = int(np.searchsorted(self.values, value + slack, side="right"))
        before = np.concatenate(([0.0], self.cumulated))
        return float((before[below] + before[through]) / (2 * self.cumulated[-1]))

    def quantile(self, share: float) -> float:
        """Return a quantile of the statistic.

        Of listed resamples it is R's type 7, otherwise the smallest value with F(value) >= share.

        >>> tabulate_draws(np.array([1.0, 2.0, 3.0, 4.0])).quantile(0.5)
        2.5
        """
        check_share(share, "the share of a quantile")
        # Resamples that were not listed have no neighbours to interpolate between; the slack keeps rounding from moving
        # a whole step.
        if self.resamples is None:
            # Without a list there is nothing to interpolate between; the slack keeps rounding from moving a whole step.
            index = int(np.searchsorted(self.cumulated, share * self.cumulated[-1] - ENOUGH, side="left"))
            return float(self.values[min(index, self.values.size - 1)])
        rank = (self.resamples - 1) * share
        low, high = self._value_at_rank(math.floor(rank)), self._value_at_rank(math.floor(rank) + 1)
        return low if low == high else low + (rank - math.floor(rank)) * (high - low)

    def _value_at_rank(self, rank: float) -> float:
        """Return the resample at this zero-based rank."""
        index = int(np.searchsorted(self.cumulated, rank, side="right"))
        return float(self.values[min(index, self.values.size - 1)])


def _slack(values: Array, *others: float) -> float:
    """Return how far apart two values may be and still count as one."""
    largest = float(max(abs(values[0]), abs(values[-1]))) if values.size else 0.0
    return TIE * max(largest, *(abs(other) for other in others), 0.0)
