"""Exact unconditional inference on a difference of two proportions.

An outcome is a pair of counts: an outer one, binomial with a nuisance rate, and an inner one, binomial given the outer
one. A `Region` holds the outcomes that speak for a larger difference at least as much as the observed one. Its largest
probability under any nuisance rate is the p-value of a difference; the difference at which that reaches alpha is the
lower bound (Buehler 1957, JASA 52:482). Both err in at most a share alpha of experiments, at every n.

Nuisance rates far from the data are left out, at a cost of `LEFT_OUT` in the p-value (Berger & Boos 1994, JASA 89:1012):
otherwise the coarse p-values of very few discordant pairs would decide about a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Range

LEFT_OUT = 1e-10
"""Error rate of the interval in which the nuisance rate is sought: no p-value of one side is smaller."""
NEGLIGIBLE = 1e-13
"""Outer counts of a smaller probability are left out."""
CONVERGED = 1e-5
"""A bound whose p-value is this near to alpha, on the scale of normal quantiles, is exact enough."""
TIED = 1e-9
"""Statistics that differ by less are equal: the observed outcome belongs to its own region despite rounding."""
SMOOTH = 6.0
"""With a larger standard deviation of the outer count, the probability hardly bends within one standard error."""
ROUGH_GRID, SMOOTH_GRID = (41, 9), (13, 5)
"""Nuisance rates that are tried over thirteen standard errors, and then around the best. Against 1201 rates the largest
probability falls short by a share of at most 0.0003."""


@dataclass(frozen=True)
class Region:
    """Outcomes that speak for a larger difference at least as much as the observed one."""

    n: int
    """Trials of the outer count."""
    observed: int
    """The observed outer count."""
    counts: Array
    """Outer counts that can matter."""
    sizes: Array
    """Trials of the inner count, for each outer one."""
    least: Array
    """The smallest inner count in the region, for each outer one."""
    range_of: Callable[[float], Range]
    """The nuisance rates that a difference allows."""
    rates_of: Callable[[float, Array], Array]
    """The inner rates, given the difference and nuisance rates."""

    def p_value(self, difference: float) -> float:
        """Return the p-value of "the true difference is at most this one"."""
        low, high = nuisance_range(self.observed, self.n)
        first, last = self.range_of(difference)
        low, high = max(low, first), min(high, last)
        if low > high:
            return LEFT_OUT
        coarse, fine = self._grid
        rates = _space_rates(low, high, coarse)
        chances = self._probabilities(difference, rates)
        best = int(chances.argmax())
        # The largest value of a smooth function lies between the neighbours of its largest one on the grid.
        near = _space_rates(rates[max(best - 1, 0)], rates[min(best + 1, coarse - 1)], fine)
        return min(1.0, float(max(chances.max(), self._probabilities(difference, near).max())) + LEFT_OUT)

    @property
    def _grid(self) -> tuple[int, int]:
        rate = self.observed / self.n
        return SMOOTH_GRID if self.n * rate * (1 - rate) > SMOOTH**2 else ROUGH_GRID

    def _probabilities(self, difference: float, rates: Array) -> Array:
        """Return the probability of the region at each nuisance rate."""
        from scipy.special import betainc, xlog1py, xlogy

        column = rates[:, None]
        weights = np.exp(self._log_ways + xlogy(self.counts, column) + xlog1py(self.n - self.counts, -column))
        matter = (weights > NEGLIGIBLE) & (self.least <= self.sizes)
        row, place = np.nonzero(matter)
        least, sizes = self.least[place], self.sizes[place]
        inner = self.rates_of(difference, rates)[row]
        tails = np.where(least > 0, betainc(np.maximum(least, 1.0), sizes - np.maximum(least, 1.0) + 1, inner), 1.0)
        return np.asarray(np.bincount(row, weights[matter] * tails, minlength=rates.size), dtype=np.float64)

    @cached_property
    def _log_ways(self) -> Array:
        from scipy.special import gammaln

        return np.asarray(gammaln(self.n + 1) - gammaln(self.counts + 1) - gammaln(self.n - self.counts + 1))


def lower_bound(region: Region, estimate: float, guess: float, alpha: float) -> float:
    """Return the largest difference whose p-value is at most alpha, which must be below 0.5; `guess` is near it."""
    from scipy.special import ndtri

    goal = float(ndtri(alpha)) - CONVERGED
    low, high = -1.0, estimate
    # On this scale the p-value is nearly linear, and about 0 at the estimate, so that the secant needs few steps.
    at, before = guess if low < guess < high else (low + high) / 2, (estimate, -goal)
    while high - low > CONVERGED**2:
        value = float(ndtri(min(region.p_value(at), 1 - math.ulp(1.0)))) - goal
        if abs(value) < CONVERGED:
            return at
        low, high = (at, high) if value < 0 else (low, at)
        secant = at - value * (at - before[0]) / (value - before[1]) if value != before[1] else math.nan
        before, at = (at, value), secant if low < secant < high else (low + high) / 2
    return low


def agree(p_value: float, low: float, high: float, level: float) -> tuple[float, float, float]:
    """Return p-value and ends of an interval, so that p < 1 - level exactly where it excludes 0.

    Test and bounds order the outcomes in slightly different ways. Where they part, the more careful one holds.

    >>> agree(0.06, 0.01, 0.3, 0.95), agree(0.01, -0.01, 0.3, 0.95)
    ((0.06, 0.0, 0.3), (0.050000000000000044, -0.01, 0.3))
    """
    if p_value >= 1 - level:
        return p_value, min(low, 0.0), max(high, 0.0)
    return 1 - level if low <= 0 <= high else p_value, low, high


def least_counts(sizes: Array, reaches: Callable[[Array], npt.NDArray[np.bool_]]) -> Array:
    """Return, for each outer count, the smallest inner one that `reaches`, which larger ones do too; size + 1 if none does.

    `reaches` takes one inner count for each outer one.

    >>> least_counts(np.array([4.0, 9.0]), lambda inner: inner >= 6)
    array([5., 6.])
    """
    below, enough = np.full(sizes.shape, -1.0), sizes + 1
    while (apart := enough - below > 1).any():
        middle = np.maximum(np.floor((below + enough) / 2), 0.0)
        reached = reaches(middle)
        enough = np.where(apart & reached, middle, enough)
        below = np.where(apart & ~reached, middle, below)
    return enough


def nuisance_range(count: int, n: int) -> Range:
    """Return the Clopper-Pearson interval of the outer rate, which misses it in a share `LEFT_OUT` of experiments."""
    from scipy.special import betaincinv

    low = float(betaincinv(count, n - count + 1, LEFT_OUT / 2)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - LEFT_OUT / 2)) if count < n else 1.0
    return low, high


def outer_counts(count: int, n: int) -> Array:
    """Return the outer counts that are not negligible somewhere in `nuisance_range`.

    >>> outer_counts(500, 1000)[[0, -1]]
    array([262., 738.])
    """
    low, high = nuisance_range(count, n)
    # Eight standard deviations, and twelve more counts where the binomial is skewed like a Poisson distribution.
    first, last = (
        n * rate + sign * (8 * math.sqrt(n * rate * (1 - rate)) + 12) for rate, sign in ((low, -1), (high, 1))
    )
    return np.arange(max(0, math.floor(first)), min(n, math.ceil(last)) + 1, dtype=np.float64)


def _space_rates(low: float, high: float, points: int) -> Array:
    """Return rates at equal distances on the scale on which a binomial rate has the same standard error everywhere."""
    first, last = (math.asin(math.sqrt(end)) for end in (low, high))
    return np.asarray(np.clip(np.sin(np.linspace(first, last, points)) ** 2, low, high))
