"""Repeated samples: sample sizes, and how to split a budget between samples and repeats.

Each sample has its own difference between the arms, which varies by `between` (omega^2) over samples; each repeat adds
noise of variance `within` (sigma^2 of one answer) to an arm. The mean difference of n samples has variance
(omega^2 + sigma_A^2 / K_A + sigma_B^2 / K_B) / n: repeats thin out only the noise, samples everything. Miller 2024
(arXiv 2411.00640), section 5. All variances are in squared units of the score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import number, quantity
from pytest_crucible.stats.planning.roots import check_power
from pytest_crucible.stats.planning.t_tests import detectable_mean

# A limit for the search; realistic numbers of repeats are far below it.
MOST_REPEATS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSplit:
    """The best split of a budget: a number of samples, and of repeats of each in both arms."""

    samples: int
    repeats: int
    cost: float
    """The cost of these samples and repeats; at most the budget."""
    se: float
    """Standard error of the mean difference."""
    detectable: float | None
    """The smallest mean difference that a two-sided t test then detects; None when nothing varies."""
    ideal_repeats: float
    """sqrt(within / between * cost of a sample / cost of a repeat): the best number of repeats with unlimited samples."""
    samples_exhausted: bool
    """True when every existing sample is used, so that more money could only buy repeats."""

    def __str__(self) -> str:
        size = f"{quantity(self.samples, 'sample')} x {quantity(self.repeats, 'repeat')}"
        suffix = "" if self.detectable is None else f", detects {number(self.detectable)}"
        return f"{size} at a cost of {self.cost:,.6g}: se {number(self.se)}{suffix}"


def variance_per_sample(between: float, within: tuple[float, float], repeats: tuple[float, float] = (1, 1)) -> float:
    """Return n times the variance of the mean difference of n samples.

    omega^2 + sigma_A^2 / K_A + sigma_B^2 / K_B.

    >>> round(variance_per_sample(1 / 9, (1 / 6, 1 / 6), (2, 2)), 4)
    0.2778
    """
    if not (min(between, *within) >= 0 and math.isfinite(between + sum(within))):
        raise ValueError(f"variances must be finite and at least 0, not {between!r} and {within!r}")
    if not min(repeats) >= 1:
        raise ValueError(f"each arm needs at least 1 repeat, not {repeats!r}")
    return between + within[0] / repeats[0] + within[1] / repeats[1]


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
    """Return the numbers of samples and repeats that give the smallest standard error for a budget.

    A sample costs `sample_cost` once (to write, to label) and `repeat_cost` for each repeat in both arms. The defaults
    count model calls, two for each repeat, so that `budget` is a number of calls. `within` is the noise variance of
    both arms' replies together (sigma_A^2 + sigma_B^2); a variance-components analysis gives both variances.
    `available` is the number of samples that exist. Every whole number of repeats is tried, so that rounding loses
    nothing. Repeats pay only where a new sample has a price of its own, or where no more samples exist. Raises
    NotEnoughData when the budget does not pay for two samples.

    >>> split = split_budget(4000, between=0.02, within=0.2, available=500)
    >>> split.samples, split.repeats, round(split.se, 4), round(split.detectable, 3)
    (500, 4, 0.0118, 0.033)
    >>> split_budget(4000, between=0.02, within=0.2).repeats
    1
    """
    check_power(power, alpha)
    variance_per_sample(between, (within, 0.0))
    _check_costs(budget, sample_cost, repeat_cost, available)
    # At least two samples must be affordable: one has no standard error.
    most_repeats = (
        MOST_REPEATS if repeat_cost == 0 else min(MOST_REPEATS, int((budget / 2 - sample_cost) / repeat_cost))
    )
    if most_repeats < 1:
        raise NotEnoughData(f"a budget of {budget!r} does not pay for one repeat of each of 2 samples")
    repeats = np.arange(1, most_repeats + 1)
    # The factor keeps a budget that pays exactly n samples from rounding down to n - 1.
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
    """Return the best number of repeats as a real number, at least 1."""
    # Without noise, or when a new sample is free, repeats never pay.
    if within * sample_cost == 0:
        return 1.0
    divisor = between * repeat_cost
    return max(1.0, math.sqrt(within * sample_cost / divisor)) if divisor else math.inf


def _z_sum(alpha: float, power: float) -> float:
    return float(ndtri(power) - ndtri(alpha / 2))


def _check_costs(budget: float, sample_cost: float, repeat_cost: float, available: int | None) -> None:
    if not (min(sample_cost, repeat_cost) >= 0 < sample_cost + repeat_cost and math.isfinite(budget)):
        raise ValueError(f"costs must be at least 0 and not both 0, not {sample_cost!r} and {repeat_cost!r}")
    if available is not None and available < 2:
        raise NotEnoughData(f"{quantity(available, 'sample')} available: a standard error needs at least 2")
