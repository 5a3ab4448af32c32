"""Repeated samples: the samples that a difference needs, and how a budget is split between samples and repeats.

Each sample has its own difference between the arms, which varies by `between` (omega^2) over samples; each repeat adds
noise of variance `within` (sigma^2 of one answer) to an arm. The mean difference of n samples has variance
(omega^2 + sigma_A^2 / K_A + sigma_B^2 / K_B) / n: repeats thin out only the noise, samples everything. Miller 2024
(arXiv 2411.00640), section 5. All variances are in squared units of the score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted, number
from pytest_crucible.stats.observations import check_share
from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_effect, check_power, whole
from pytest_crucible.stats.planning.t_tests import detectable_mean

MOST_REPEATS = 100_000
"""Nobody asks the same question more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSplit:
    """The best use of a budget: so many samples, so many repeats of each in both arms."""

    samples: int
    repeats: int
    cost: float
    """What these cost; at most the budget."""
    se: float
    """Standard error of the mean difference."""
    detectable: float | None
    """The smallest mean difference that a two-sided t test then detects; None when nothing varies."""
    ideal_repeats: float
    """sqrt(within / between * cost of a sample / cost of a repeat): the best K were there samples and money enough."""
    samples_exhausted: bool
    """Every sample that exists is used, so that what is left could only buy repeats."""

    def __str__(self) -> str:
        size = f"{counted(self.samples, 'sample')} x {counted(self.repeats, 'repeat')}"
        shown = "" if self.detectable is None else f", detects {number(self.detectable)}"
        return f"{size} at a cost of {self.cost:,.6g}: se {number(self.se)}{shown}"


def variance_per_sample(between: float, within: tuple[float, float], repeats: tuple[float, float] = (1, 1)) -> float:
    """omega^2 + sigma_A^2 / K_A + sigma_B^2 / K_B: n times the variance of the mean difference of n samples.

    >>> round(variance_per_sample(1 / 9, (1 / 6, 1 / 6), (2, 2)), 4)
    0.2778
    """
    if not (min(between, *within) >= 0 and math.isfinite(between + sum(within))):
        raise ValueError(f"variances are finite and at least 0, not {between!r} and {within!r}")
    if not min(repeats) >= 1:
        raise ValueError(f"each sample is answered at least once in each arm, not {repeats!r} times")
    return between + within[0] / repeats[0] + within[1] / repeats[1]


def power_with_repeats(
    n: float,
    difference: float,
    *,
    between: float,
    within: tuple[float, float] = (0.0, 0.0),
    repeats: tuple[float, float] = (1, 1),
    alpha: float = 0.05,
) -> float:
    """Chance that n samples with K_A and K_B repeats show this difference on its own side. Normal approximation.

    At no difference alpha / 2, the chance of an alarm on one side.

    >>> round(power_with_repeats(969, 0.03, between=1 / 9), 3)
    0.8
    """
    check_share(alpha, "alpha")
    check_effect(difference, "the difference")
    if not n >= 1:
        raise NotEnoughData(f"{counted(n, 'sample')}: a mean needs at least 1")
    se = math.sqrt(variance_per_sample(between, within, repeats) / n)
    if se == 0:
        return float(difference != 0)
    return float(ndtr(abs(difference) / se + float(ndtri(alpha / 2))))


def samples_with_repeats(
    difference: float,
    *,
    between: float,
    within: tuple[float, float] = (0.0, 0.0),
    repeats: tuple[float, float] = (1, 1),
    alpha: float = 0.05,
    power: float = 0.8,
) -> SampleSize:
    """Samples that show this difference: (z_alpha/2 + z_power)^2 variance_per_sample / difference^2. Miller 2024.

    >>> samples_with_repeats(0.03, between=1 / 9).ceiling
    969
    """
    check_power(power, alpha)
    check_effect(difference, "the difference")
    variance = variance_per_sample(between, within, repeats)
    if difference == 0:
        return NEVER
    n = _reach(alpha, power) ** 2 * variance / difference**2
    reached = power_with_repeats(whole(n), difference, between=between, within=within, repeats=repeats, alpha=alpha)
    return SampleSize(n=n, ceiling=whole(n), power=reached)


def detectable_with_repeats(
    n: float,
    *,
    between: float,
    within: tuple[float, float] = (0.0, 0.0),
    repeats: tuple[float, float] = (1, 1),
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Smallest mean difference that n samples with K_A and K_B repeats show. Miller 2024; 0 when nothing varies.

    >>> round(detectable_with_repeats(969, between=1 / 9), 4)
    0.03
    """
    check_power(power, alpha)
    if not n >= 1:
        raise NotEnoughData(f"{counted(n, 'sample')}: a mean needs at least 1")
    return _reach(alpha, power) * math.sqrt(variance_per_sample(between, within, repeats) / n)


def split_budget(
    budget: float,
    *,
    between: float,
    within: float,
    sample_cost: float = 0.0,
    repeat_cost: float = 2.0,
    available: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> BudgetSplit:
    """How many samples and how many repeats of each give the smallest standard error for this budget.

    A sample costs `sample_cost` once (to write, to label) and `repeat_cost` for each repeat in both arms; the defaults
    count model calls, two for each repeat, so that `budget` is a number of calls. `within` is the noise of both arms'
    answers together (sigma_A^2 + sigma_B^2); both come from a variance-components analysis. `available` is how many
    samples exist. Every whole number of repeats is tried, so that nothing is lost to rounding. Repeats pay only where
    a new sample has a price of its own, or where there is none. Raises NotEnoughData when two samples cannot be paid.

    >>> split = split_budget(4000, between=0.02, within=0.2, available=500)
    >>> split.samples, split.repeats, round(split.se, 4), round(split.detectable, 3)
    (500, 4, 0.0118, 0.033)
    >>> split_budget(4000, between=0.02, within=0.2).repeats
    1
    """
    check_power(power, alpha)
    variance_per_sample(between, (within, 0.0))
    _check_costs(budget, sample_cost, repeat_cost, available)
    most = MOST_REPEATS if repeat_cost == 0 else min(MOST_REPEATS, int((budget / 2 - sample_cost) / repeat_cost))
    if most < 1:
        raise NotEnoughData(f"a budget of {budget!r} does not pay for one repeat of each of 2 samples")
    repeats = np.arange(1, most + 1)
    samples = np.floor(budget / (sample_cost + repeats * repeat_cost) * (1 + 1e-12))
    samples = np.minimum(samples, math.inf if available is None else available)
    best = int(np.argmin((between + within / repeats) / samples))
    n, k = int(samples[best]), int(repeats[best])
    se = math.sqrt((between + within / k) / n)
    return BudgetSplit(
        samples=n,
        repeats=k,
        cost=n * (sample_cost + k * repeat_cost),
        se=se,
        detectable=detectable_mean(n, se * math.sqrt(n), alpha=alpha, power=power),
        ideal_repeats=_ideal_repeats(between, within, sample_cost, repeat_cost),
        samples_exhausted=n == available,
    )


def _ideal_repeats(between: float, within: float, sample_cost: float, repeat_cost: float) -> float:
    """At least 1: without a repeat there is no answer."""
    if within * sample_cost == 0:
        return 1.0
    divisor = between * repeat_cost
    return max(1.0, math.sqrt(within * sample_cost / divisor)) if divisor else math.inf


def _reach(alpha: float, power: float) -> float:
    return float(ndtri(power) - ndtri(alpha / 2))


def _check_costs(budget: float, sample_cost: float, repeat_cost: float, available: int | None) -> None:
    if not (min(sample_cost, repeat_cost) >= 0 < sample_cost + repeat_cost and math.isfinite(budget)):
        raise ValueError(f"costs are at least 0 and not both 0, not {sample_cost!r} and {repeat_cost!r}")
    if available is not None and available < 2:
        raise NotEnoughData(f"{counted(available, 'sample')} available: a standard error needs at least 2")
