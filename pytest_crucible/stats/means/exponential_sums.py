"""Weighted sums of exponential variables: derivatives of their cumulant generating function.

The sum of E_i d_i has K(t) = -sum log(1 - d_i t). Of many values near their mean, t is small where K is needed, so that its power
series in t converges fast, and the sums of powers of all values give it at every mean: 100,000 values are read once for a bound
instead of hundreds of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pytest_crucible.stats.arrays import Array

# The last term is 0.25^24 = 4e-15 of the first.
TERMS = 24
LARGEST_RATIO = 0.25
# Fewer values are as fast without a series.
MANY = 4_000


class Cumulant(NamedTuple):
    """K(t) and its first three derivatives."""

    value: float
    first: float
    second: float
    third: float


CumulantAt = Callable[[float], Cumulant]


def sum_directly(distances: Array, times: float | Array) -> CumulantAt:
    """Return the cumulant generating function of the sum of exponential variables with these factors, each `times` times."""

    def at(point: float) -> Cumulant:
        rest = 1 - distances * point
        slopes = distances / rest
        squares = slopes * slopes
        # np.sum, not a product of BLAS, whose threads cost more than they save.
        return Cumulant(
            -float(np.sum(times * np.log(rest))),
            float(np.sum(times * slopes)),
            float(np.sum(times * squares)),
            2 * float(np.sum(times * squares * slopes)),
        )

    return at


class PowerSums:
    """Sums of powers of values around their mean, from which those around every other mean follow."""

    def __init__(self, values: Array) -> None:
        self.mean = float(values.mean())
        self.reach = float(np.abs(values - self.mean).max())
        centred, power = values - self.mean, np.ones(values.size)
        sums = [float(values.size)]
        for _ in range(TERMS):
            power = power * centred
            sums.append(float(power.sum()))
        self._sums = sums

    def sum_by_series(self, mean: float, scale: float, direct: CumulantAt) -> CumulantAt:
        """Return the function for distances (values - mean) / scale; where the series converges too slowly, it is `direct`."""
        shift, largest = self.mean - mean, (self.reach + abs(self.mean - mean)) / scale
        powers = [shift**k for k in range(TERMS + 1)]
        sums = [
            sum(math.comb(k, j) * self._sums[j] * powers[k - j] for j in range(k + 1)) / scale**k
            for k in range(TERMS + 1)
        ]

        def at(point: float) -> Cumulant:
            if abs(point) * largest > LARGEST_RATIO:
                return direct(point)
            terms = [point**k for k in range(TERMS + 1)]
            return Cumulant(
                sum(sums[k] * terms[k] / k for k in range(1, TERMS + 1)),
                sum(sums[k] * terms[k - 1] for k in range(1, TERMS + 1)),
                sum((k - 1) * sums[k] * terms[k - 2] for k in range(2, TERMS + 1)),
                sum((k - 1) * (k - 2) * sums[k] * terms[k - 3] for k in range(3, TERMS + 1)),
            )

        return at
