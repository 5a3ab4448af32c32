"""Sample sizes of other designs: several arms, two rates, clusters, margins, and repeats for a budget.

Power and sample size of one-way ANOVA by the noncentral F distribution.
Cohen's f is the standard deviation of the arms' means in standard deviations of the values.

Power, number of clusters and smallest detectable effect for clustered samples, such as several about one passage.
A mean of G clusters of m samples varies as one of G m / (1 + (m - 1) ICC) independent samples would, on G - 1 degrees
of freedom: more samples in the same clusters help only up to G / ICC of them.

Repeated samples: sample sizes, and how to split a budget between samples and repeats.
Each sample has its own difference between the arms, which varies by `between` (omega^2) over samples; each repeat adds
noise of variance `within` (sigma^2 of one answer) to an arm. The mean difference of n samples has variance
(omega^2 + sigma_A^2 / K_A + sigma_B^2 / K_B) / n: repeats thin out only the noise, samples everything. Miller 2024
(arXiv 2411.00640), section 5. All variances are in squared units of the score.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import fdtri, ncfdtr, ndtr, ndtri

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Alternative, check_share, check_shares
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import number, quantity
from pytest_crucible.stats.planning.roots import (
    NEVER,
    SampleSize,
    check_effect,
    check_power,
    round_up,
    sample_size,
    toward,
)
from pytest_crucible.stats.planning.t_tests import detectable_mean, shifted_t_power


def power_anova(n: float, arms: int, effect: float, *, alpha: float = 0.05) -> float:
    """Return the power of one-way ANOVA at Cohen's f with n values in each arm.

    R: pwr::pwr.anova.test(k, n, f). The power is alpha at no effect. Raises NotEnoughData below two values in each arm.

    >>> round(power_anova(53, 3, 0.25), 7)
    0.8048873
    """
    check_share(alpha, "alpha")
    _check_anova(arms, effect)
    if not n >= 2:
        raise NotEnoughData(f"{quantity(n, 'value')} in each arm: ANOVA needs at least 2")
    return _anova_power(n, arms, effect, alpha)


def samples_for_anova(arms: int, effect: float, *, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
    """Return the number of values in each arm that one-way ANOVA needs at Cohen's f.

    R: pwr::pwr.anova.test(k, f=, power=)$n.

    >>> samples_for_anova(3, 0.25).ceiling
    53
    """
    check_power(power, alpha)
    _check_anova(arms, effect)
    # With fewer than two values in each arm, the residual variance is undefined.
    return sample_size(lambda n: _anova_power(n, arms, effect, alpha), power, fewest=2.0) if effect else NEVER


def _anova_power(n: float, arms: int, effect: float, alpha: float) -> float:
    dof = arms - 1.0, arms * (n - 1.0)
    # Noncentrality k n f^2 (Cohen 1988, chapter 8).
    return 1 - float(ncfdtr(*dof, arms * n * effect * effect, float(fdtri(*dof, 1 - alpha))))


def _check_anova(arms: int, effect: float) -> None:
    check_effect(effect, "Cohen's f")
    if arms < 2 or effect < 0:
        raise ValueError(f"expected at least 2 arms and an effect of at least 0, not {arms} and {effect!r}")


def samples_for_proportions(
    rate: float, baseline_rate: float, *, alpha: float = 0.05, power: float = 0.8
) -> SampleSize:
    """Return the samples of each arm that a two-sided z test with the pooled variance needs to distinguish two rates.

    Both tails count. R: power.prop.test(p1, p2, power=, strict=TRUE)$n. Infinite for equal rates.

    >>> samples_for_proportions(0.85, 0.8).ceiling
    906
    """
    check_power(power, alpha)
    outside = [share for share in (rate, baseline_rate) if not 0 <= share <= 1]
    if outside:
        raise ValueError(f"a rate must lie between 0 and 1, not {outside[0]!r}")
    if rate == baseline_rate:
        return NEVER
    return sample_size(lambda n: _proportions_power(n, rate, baseline_rate, alpha), power, fewest=1.0)


def _proportions_power(n: float, rate: float, baseline: float, alpha: float) -> float:
    # The test uses the pooled variance of the null hypothesis; its statistic spreads with the variance of the true rates.
    pooled = (rate + baseline) / 2
    null_spread, true_spread = (
        math.sqrt(2 * pooled * (1 - pooled)),
        math.sqrt(rate * (1 - rate) + baseline * (1 - baseline)),
    )
    effect, critical = math.sqrt(n) * abs(rate - baseline), -float(ndtri(alpha / 2)) * null_spread
    # Rates of 0 and 1 leave no chance: the statistic is a constant.
    if true_spread == 0:
        return float(effect > critical)
    return min(1.0, float(ndtr((effect - critical) / true_spread) + ndtr((-effect - critical) / true_spread)))


def design_effect(size: float, icc: float, *, size_variation: float = 0.0) -> float:
    """Return the factor by which clustering inflates the variance of a mean: 1 + (m - 1) ICC.

    Kish 1965. `size_variation` is the coefficient of variation of the cluster sizes, for unequal ones: 1 + ((1 + cv^2)
    m - 1) ICC (Eldridge, Ashby & Kerry 2006).

    >>> design_effect(5, 0.25)
    2.0
    """
    if not (size >= 1 and size_variation >= 0):
        raise ValueError(
            f"clusters must have at least 1 sample and a size variation of at least 0, not {size!r} and {size_variation!r}"
        )
    if not 0 <= icc <= 1:
        raise ValueError(f"an intraclass correlation must lie between 0 and 1 here, not {icc!r}")
    return 1 + ((1 + size_variation**2) * size - 1) * icc


def clusters_for_mean(
    size: float,
    effect: float,
    icc: float,
    *,
    size_variation: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: Alternative = "two-sided",
) -> SampleSize:
    """Return the number of clusters of m samples that a t test needs to detect a mean.

    The mean is in standard deviations of one sample.

    >>> clusters_for_mean(5, 0.3, 0.2).ceiling
    34
    """
    check_power(power, alpha)
    check_effect(effect, "the effect")
    per_cluster = size / design_effect(size, icc, size_variation=size_variation)
    shift = toward(effect, alternative)
    # An effect on the other side of a one-sided test is not detected by any number of clusters.
    if shift <= 0:
        return NEVER

    def power_of(clusters: float) -> float:
        # The cluster means are the observations: G - 1 degrees of freedom, however large the clusters are.
        return shifted_t_power(clusters - 1, shift * math.sqrt(clusters * per_cluster), alpha, alternative)

    return sample_size(power_of, power, fewest=2.0)


def samples_for_margin(
    margin: float,
    deviation: float,
    *,
    difference: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Return the samples needed for a one-sided bound to clear -margin, given the true `difference`.

    Normal approximation, for yes or no; `samples_by_gaffke` plans margins of scores. None when the true difference is at
    or beyond the margin: more samples only prove that.

    >>> samples_for_margin(0.05, 0.4)
    396
    """
    check_shares(alpha=alpha, power=power)
    if not deviation >= 0:
        raise ValueError(f"a standard deviation must be at least 0, not {deviation!r}")
    distance = margin + difference
    # A true difference at or beyond the margin is never proven inferior-free: more samples only prove the opposite.
    if distance <= 0:
        return None
    return round_up(((float(ndtri(power)) - float(ndtri(alpha))) * deviation / distance) ** 2)


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

    def __str__(self) -> str:
        size = f"{quantity(self.samples, 'sample')} x {quantity(self.repeats, 'repeat')}"
        suffix = "" if self.detectable is None else f", detects {number(self.detectable)}"
        return f"{size} at a cost of {self.cost:,.6g}: se {number(self.se)}{suffix}"


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
    if not (min(between, within) >= 0 and math.isfinite(between + within)):
        raise ValueError(f"variances must be finite and at least 0, not {between!r} and {within!r}")
    if not (min(sample_cost, repeat_cost) >= 0 < sample_cost + repeat_cost and math.isfinite(budget)):
        raise ValueError(f"costs must be at least 0 and not both 0, not {sample_cost!r} and {repeat_cost!r}")
    if available is not None and available < 2:
        raise NotEnoughData(f"{quantity(available, 'sample')} available: a standard error needs at least 2")
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
    )
