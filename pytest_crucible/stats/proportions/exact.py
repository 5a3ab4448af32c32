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
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    Range,
    Side,
    check_alternative,
    check_arms,
    check_counts,
    check_share,
    check_tail,
)
from pytest_crucible.stats.distributions import beta_quantile, beta_upper_quantile, normal_quantile
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.moments import normal_p_value
from pytest_crucible.stats.proportions.paired import tango_lower, tango_statistic, tango_statistics
from pytest_crucible.stats.proportions.score import difference_statistics, score_interval, score_statistic
from pytest_crucible.stats.results import Significance

LEFT_OUT = 1e-10
"""Error rate of the interval in which the nuisance rate is sought: no p-value of one side is smaller."""
NEGLIGIBLE = 1e-13
"""Outer counts of a smaller probability are left out."""
CONVERGED = 1e-5
"""A bound whose p-value is this near to alpha, on the scale of normal quantiles, is exact enough."""
CLEAR = 0.01
"""Where the p-value of no difference is further from alpha on that scale, the side of 0 of a bound needs no search."""
TIED = 1e-9
"""Statistics that differ by less are equal: the observed outcome belongs to its own region despite rounding."""
SMOOTH = 6.0
"""With a larger standard deviation of the outer count, the probability hardly bends within one standard error."""
LARGE = 16
"""Factorials from which on five terms of Stirling's series are exact."""
SMALL_ERRORS = np.array([math.lgamma(k + 1) - k * math.log(k or 1) + k for k in range(LARGE)])
"""Stirling's errors of the smaller ones."""
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
        weights = self._outer_chances.at(rates)
        if self._is_staircase:
            return np.asarray((weights * self._stair_tails(self.rates_of(difference, rates))).sum(axis=1))
        # It takes 0.2 s to import.
        from scipy.special import betainc

        matter = (weights > NEGLIGIBLE) & (self.least <= self.sizes)
        row, place = np.nonzero(matter)
        least, sizes = self.least[place], self.sizes[place]
        inner = self.rates_of(difference, rates)[row]
        tails = np.where(least > 0, betainc(np.maximum(least, 1.0), sizes - np.maximum(least, 1.0) + 1, inner), 1.0)
        return np.asarray(np.bincount(row, weights[matter] * tails, minlength=rates.size), dtype=np.float64)

    @cached_property
    def _outer_chances(self) -> _Chances:
        return _Chances(self.counts, self.n - self.counts)

    @cached_property
    def _is_staircase(self) -> bool:
        """True where each outer count has one inner trial more than the one before, and the smallest inner count up to 1 more."""
        is_stair = np.isin(np.diff(self.least), (0.0, 1.0)).all() and (np.diff(self.sizes) == 1).all()
        return bool(is_stair) and self.least[0] >= 1

    def _stair_tails(self, inner: Array) -> Array:
        """Return the chance of at least the smallest inner count, by inner rate and outer count.

        With one trial more, the chance of k successes or more grows by that of a success after k - 1; without k successes it
        falls by the chance of exactly k. Rounding adds 1e-14, and `LEFT_OUT` is added to every p-value.
        """
        gains = self._gain_chances.at(inner) * inner[:, None]
        losses = np.where(np.diff(self.least) > 0, self._loss_chances.at(inner), 0.0)
        first = self._first_chances.at(inner).sum(axis=1)
        return np.asarray(np.cumsum(np.column_stack((first, gains - losses)), axis=1))

    @cached_property
    def _first_chances(self) -> _Chances:
        size, least = self.sizes[0], self.least[0]
        reached = least + np.arange(max(size - least + 1, 0))
        return _Chances(reached, size - reached)

    @cached_property
    def _gain_chances(self) -> _Chances:
        return _Chances(self.least[:-1] - 1, self.sizes[:-1] - self.least[:-1] + 1)

    @cached_property
    def _loss_chances(self) -> _Chances:
        return _Chances(self.least[:-1], self.sizes[1:] - self.least[:-1])


@dataclass(frozen=True)
class _Chances:
    """Chances of numbers of successes and failures, at any rate. Less than no failure has no chance.

    They are computed from those at a reference rate: logarithms of factorials of 100,000 would cost five digits.
    """

    successes: Array
    failures: Array

    def at(self, rates: Array) -> Array:
        """Return the chances by rate."""
        successes = self.successes * _log_ratios(rates, self._reference)[:, None]
        failures = self._possible * _log_ratios(1 - rates, 1 - self._reference)[:, None]
        return np.asarray(np.where(self.failures < 0, 0.0, np.exp(self._log_chances + successes + failures)))

    @cached_property
    def _reference(self) -> float:
        return float((self.successes.sum() + 0.5) / (self._trials.sum() + 1))

    @cached_property
    def _trials(self) -> Array:
        return self.successes + self._possible

    @cached_property
    def _possible(self) -> Array:
        return np.asarray(np.maximum(self.failures, 0.0))

    @cached_property
    def _log_chances(self) -> Array:
        """The logarithms of the chances at the reference rate, as Loader (2000) splits them."""
        expected = self._trials * self._reference, self._trials * (1 - self._reference)
        deviances = _deviances(self.successes, expected[0]) + _deviances(self._possible, expected[1])
        ways = _stirling_errors(self._trials) - _stirling_errors(self.successes) - _stirling_errors(self._possible)
        return np.asarray(ways - deviances)


def _log_ratios(rates: Array, reference: float) -> Array:
    """Return the logarithms of rates divided by a reference, exact for rates that are close to it."""
    # The smallest number that has a logarithm, so that 0 log 0 is 0.
    rates = np.maximum(rates, 1e-300)
    return np.asarray(
        np.log1p(np.maximum((rates - reference) / reference, -0.5)) + np.log(np.minimum(2 * rates / reference, 1.0))
    )


def _deviances(counts: Array, expected: Array) -> Array:
    """Return x log(x / m) + m - x for counts x that are expected to be m."""
    apart = counts - expected
    ratios = np.divide(apart, expected, out=np.zeros_like(apart), where=expected > 0)
    return np.asarray(counts * np.log1p(np.maximum(ratios, 2.0**-53 - 1)) - apart)


def _stirling_errors(counts: Array) -> Array:
    """Return log(n!) - n log n + n; 0 for 0."""
    large = np.maximum(counts, LARGE)
    inverse, square = 1 / large, large**-2.0
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    places = np.clip(counts, 0, LARGE - 1).astype(np.intp)
    return np.asarray(np.where(counts < LARGE, SMALL_ERRORS[places], np.log(2 * math.pi * large) / 2 + series))


def lower_bound(region: Region, estimate: float, guess: float, alpha: float) -> float:
    """Return the largest difference whose p-value is at most alpha, which must be below 0.5; `guess` is near it."""
    goal = normal_quantile(alpha) - CONVERGED
    low, high = -1.0, estimate
    # On this scale the p-value is nearly linear, and about 0 at the estimate, so that the secant needs few steps.
    at, before = guess if low < guess < high else (low + high) / 2, (estimate, -goal)
    while high - low > CONVERGED**2:
        value = normal_quantile(min(region.p_value(at), 1 - math.ulp(1.0))) - goal
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


@lru_cache(maxsize=4096)
def nuisance_range(count: int, n: int) -> Range:
    """Return the Clopper-Pearson interval of the outer rate, which misses it in a share `LEFT_OUT` of experiments."""
    low = beta_quantile(LEFT_OUT / 2, count, n - count + 1) if count else 0.0
    high = beta_upper_quantile(LEFT_OUT / 2, count + 1, n - count) if count < n else 1.0
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


METHOD = "exact unconditional"
# Gained and lost pairs each: from here on the normal formula replaces enumeration, which takes too long.
MANY = 2000
SHIFT = 2.0


def paired_exact_p_value(gained: int, lost: int, n: int, *, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of "the true difference is 0": McNemar's test, exact and unconditional.

    It rejects equal arms in at most a share alpha of experiments, for every alpha and n. It is at least 1e-10, two-sided 2e-10.

    >>> round(paired_exact_p_value(9, 2, 60), 4), paired_exact_p_value(0, 4, 4) > 0.12
    (0.0403, True)
    """
    check_counts(n, gained=gained, lost=lost)
    check_alternative(alternative)
    if alternative == "less":
        return paired_exact_p_value(lost, gained, n, alternative="greater")
    if alternative == "greater":
        return _p_of_no_gain(gained, lost, n)
    # Both tails are equally probable when the arms do not differ.
    return min(1.0, 2 * _p_of_no_gain(max(gained, lost), min(gained, lost), n)) if gained != lost else 1.0


def paired_exact_bound(gained: int, lost: int, n: int, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound of rate(candidate) - rate(baseline). It errs in at most a share alpha, which is below 0.5."""
    check_counts(n, gained=gained, lost=lost)
    check_tail(alpha, side)
    if side == "lower":
        return _paired_lower(gained, lost, n, alpha)
    # Swapped arms give the negative bound to the last bit.
    return -_paired_lower(lost, gained, n, alpha)


def paired_exact_test(
    gained: int, lost: int, n: int, *, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Significance:
    """Return the difference with its exact interval and p-value, which agree: p < 1 - level exactly where it excludes 0.

    An end that a one-sided alternative does not test is infinite. [-1, 1] without pairs.
    """
    check_share(level, "level")
    alpha = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    p_value = paired_exact_p_value(gained, lost, n, alternative=alternative)
    low = -math.inf if alternative == "less" else paired_exact_bound(gained, lost, n, alpha=alpha, side="lower")
    high = math.inf if alternative == "greater" else paired_exact_bound(gained, lost, n, alpha=alpha, side="upper")
    p_value, low, high = agree(p_value, low, high, level)
    return Significance(
        method=METHOD,
        statistic=tango_statistic(gained, lost, n, 0.0),
        p_value=p_value,
        estimate=(gained - lost) / n if n else None,
        interval=Interval(low=low, high=high, level=level, method=METHOD),
        n=(n,),
        status="ok" if gained + lost else "degenerate",
        note="" if gained + lost else "no pair is discordant",
    )


def paired_exact_test_p_value(gained: int, lost: int, n: int, *, level: float = 0.95) -> float:
    """Return the two-sided p-value of `paired_exact_test`, of whose interval only an end that decides about it is computed.

    >>> paired_exact_test_p_value(2, 12, 40) == paired_exact_test(2, 12, 40).p_value
    True
    """
    check_share(level, "level")
    p_value = paired_exact_p_value(gained, lost, n)
    if p_value >= 1 - level:
        return p_value
    # The end beyond the estimate never excludes 0.
    return p_value if _excludes_zero(max(gained, lost), min(gained, lost), n, (1 - level) / 2) else 1 - level


@lru_cache(maxsize=4096)
def _p_of_no_gain(gained: int, lost: int, n: int) -> float:
    """Return the p-value of "the candidate is not better"."""
    if not gained + lost:
        return 1.0
    z = tango_statistic(gained, lost, n, 0.0)
    if min(gained, lost) >= MANY:
        return normal_p_value(z - _shift(gained, lost), "greater")
    discordant = outer_counts(gained + lost, n)
    # McNemar's z of g gained among m discordant pairs, (2 g - m) / sqrt(m), solved for g; without any it is 0.
    least = np.where(discordant > 0, np.ceil((discordant + (z - TIED) * np.sqrt(discordant)) / 2), float(z > 0))
    return _paired_region(gained, lost, n, discordant, least).p_value(0.0)


@lru_cache(maxsize=4096)
def _paired_lower(gained: int, lost: int, n: int, alpha: float) -> float:
    # Without pairs nothing is known, and the bound is -1 as well.
    if lost == n:
        return -1.0
    z = -normal_quantile(alpha)
    if min(gained, lost) >= MANY:
        return tango_lower(gained, lost, n, z + _shift(gained, lost))
    limit = tango_lower(gained, lost, n, z)
    return lower_bound(_lower_region(gained, lost, n, limit, z), (gained - lost) / n, limit, alpha)


def _lower_region(gained: int, lost: int, n: int, limit: float, z: float) -> Region:
    """Return the outcomes whose statistic at a difference is z or more."""
    discordant = outer_counts(gained + lost, n)
    least = least_counts(discordant, lambda inner: tango_statistics(inner, discordant - inner, n, limit) >= z - TIED)
    return _paired_region(gained, lost, n, discordant, least)


def _excludes_zero(gained: int, lost: int, n: int, alpha: float) -> bool:
    """Return whether the lower bound is above 0: mostly by the p-value of no difference, the bound's in its first step."""
    if lost < n and min(gained, lost) < MANY:
        z = -normal_quantile(alpha)
        p_value = _lower_region(gained, lost, n, tango_lower(gained, lost, n, z), z).p_value(0.0)
        apart = normal_quantile(min(p_value, 1 - math.ulp(1.0))) + z
        if abs(apart) > CLEAR:
            return apart < 0
    return _paired_lower(gained, lost, n, alpha) > 0


def _shift(gained: int, lost: int) -> float:
    return SHIFT / math.sqrt(min(gained, lost))


def _paired_region(gained: int, lost: int, n: int, discordant: Array, least: Array) -> Region:
    return Region(
        n=n,
        observed=gained + lost,
        counts=discordant,
        sizes=discordant,
        least=least,
        # At least as many pairs are discordant as the rates differ.
        range_of=lambda change: (abs(change), 1.0),
        rates_of=_gained_rates,
    )


def _gained_rates(difference: float, discordance: Array) -> Array:
    """Return the share of gained pairs among the discordant ones; any if there are none."""
    return np.clip((1 + difference / np.maximum(discordance, np.finfo(np.float64).tiny)) / 2, 0.0, 1.0)


def two_exact_p_value(x1: int, n1: int, x2: int, n2: int, *, alternative: Alternative = "two-sided") -> float | None:
    """Return the p-value of "the true rates are equal". None for an empty arm.

    It rejects equal rates in at most a share alpha of experiments, for every alpha and all sizes. A two-sided p-value is
    twice the smaller of the one-sided ones, which are at least 1e-10.
    """
    check_arms(x1, n1, x2, n2)
    check_alternative(alternative)
    if not (n1 and n2):
        return None
    if alternative == "greater":
        return _p_of_no_more(x1, n1, x2, n2)
    if alternative == "less":
        return _p_of_no_more(x2, n2, x1, n1)
    return min(1.0, 2 * min(_p_of_no_more(x1, n1, x2, n2), _p_of_no_more(x2, n2, x1, n1)))


def two_exact_bound(x1: int, n1: int, x2: int, n2: int, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound of the first rate minus the second. It errs in at most a share alpha, which is below 0.5.

    -1 or 1 for an empty arm.
    """
    check_arms(x1, n1, x2, n2)
    check_tail(alpha, side)
    # Swapped arms give the negative bound to the last bit.
    return _two_arms_lower(x1, n1, x2, n2, alpha) if side == "lower" else -_two_arms_lower(x2, n2, x1, n1, alpha)


def two_exact_test(
    x1: int, n1: int, x2: int, n2: int, *, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Significance:
    """Return the difference with its exact interval and p-value, which agree: p < 1 - level exactly where it excludes 0.

    An end that a one-sided alternative does not test is infinite.

    >>> print(two_exact_test(7, 10, 2, 12))
    0.533 [0.083, 0.828], statistic 2.5, p = 0.019, n=10 + 12 (exact unconditional)
    """
    check_share(level, "level")
    alpha = (1 - level) / 2 if alternative == "two-sided" else 1 - level
    p_value = two_exact_p_value(x1, n1, x2, n2, alternative=alternative)
    low = -math.inf if alternative == "less" else two_exact_bound(x1, n1, x2, n2, alpha=alpha, side="lower")
    high = math.inf if alternative == "greater" else two_exact_bound(x1, n1, x2, n2, alpha=alpha, side="upper")
    if p_value is not None:
        p_value, low, high = agree(p_value, low, high, level)
    # All successes or all failures: the statistic is 0 / 0, the interval still exists.
    constant = x1 + x2 in (0, n1 + n2)
    note = "all samples of both arms have the same outcome" if constant else ""
    if p_value is None:
        note = "an arm without values cannot be compared"
    return Significance(
        method=METHOD,
        statistic=None if constant or p_value is None else score_statistic(x1, n1, x2, n2),
        p_value=p_value,
        estimate=None if p_value is None else x1 / n1 - x2 / n2,
        interval=Interval(low=low, high=high, level=level, method=METHOD),
        n=(n1, n2),
        status="insufficient_data" if p_value is None else "degenerate" if constant else "ok",
        note=note,
    )


@lru_cache(maxsize=4096)
def _p_of_no_more(x1: int, n1: int, x2: int, n2: int) -> float:
    """Return the p-value of "the first rate is not larger"."""
    z = float(difference_statistics(np.array([float(x1)]), n1, np.array([float(x2)]), n2, 0.0)[0])
    return _two_arms_region(x1, n1, x2, n2, 0.0, z).p_value(0.0)


@lru_cache(maxsize=4096)
def _two_arms_lower(x1: int, n1: int, x2: int, n2: int, alpha: float) -> float:
    if not (n1 and n2) or (x1 == 0 and x2 == n2):
        return -1.0
    limit = score_interval(x1, n1, x2, n2, level=1 - 2 * alpha).low
    region = _two_arms_region(x1, n1, x2, n2, limit, -normal_quantile(alpha))
    return lower_bound(region, x1 / n1 - x2 / n2, limit, alpha)


def _two_arms_region(x1: int, n1: int, x2: int, n2: int, difference: float, z: float) -> Region:
    """Return the outcomes whose statistic at this difference is z or more."""
    seconds = outer_counts(x2, n2)
    sizes = np.full(seconds.shape, float(n1))
    least = least_counts(sizes, lambda first: difference_statistics(first, n1, seconds, n2, difference) >= z - TIED)
    return Region(
        n=n2,
        observed=x2,
        counts=seconds,
        sizes=sizes,
        least=least,
        range_of=lambda change: (max(0.0, -change), min(1.0, 1.0 - change)),
        rates_of=lambda change, rates: np.clip(rates + change, 0.0, 1.0),
    )
