"""The scales on which means are nearly normal: their own, or angles for means between two bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pytest_crucible.stats.arrays import Array, Range


class Scale(Protocol):
    """A growing transformation of means."""

    def forward(self, means: Array) -> Array:
        """Return the transformed means."""

    def slope(self, means: Array) -> Array:
        """Return the derivative of `forward`."""

    def back(self, value: float) -> float:
        """Return the mean of a transformed value."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Means without a transformation."""

    def forward(self, means: Array) -> Array:
        return means

    def slope(self, means: Array) -> Array:
        return np.ones_like(means)

    def back(self, value: float) -> float:
        return value


@dataclass(frozen=True, slots=True)
class Angular:
    """The arcsine of the root of a mean's place between its bounds.

    A rate's variance on this scale does not depend on the rate (Bartlett 1936). On the rates themselves the luckiest arm
    also has the smallest variance: with 32 arms of 90 % and 100 samples, its interval then covers in 81 % of runs.

    >>> scale = Angular((0.0, 1.0))
    >>> round(scale.back(scale.forward(np.array([0.9]))[0]), 6), scale.back(2.0)
    (0.9, 1.0)
    """

    bounds: Range

    def forward(self, means: Array) -> Array:
        return np.asarray(np.arcsin(np.sqrt(np.clip(self._share(means), 0.0, 1.0))), dtype=np.float64)

    def slope(self, means: Array) -> Array:
        share = self._share(means)
        return np.asarray(0.5 / np.sqrt(share * (1 - share)) / (self.bounds[1] - self.bounds[0]), dtype=np.float64)

    def back(self, value: float) -> float:
        low, high = self.bounds
        return low + (high - low) * math.sin(min(max(value, 0.0), math.pi / 2)) ** 2

    def _share(self, means: Array) -> Array:
        return (means - self.bounds[0]) / (self.bounds[1] - self.bounds[0])
