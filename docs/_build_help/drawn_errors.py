"""Figures of many runs whose truth is known: coverage of intervals, false passes of gates, power."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from drawing import choose_runs, curves, nominal, ticks
from matplotlib.figure import Figure

from pytest_crucible import stats
from pytest_crucible.stats.arrays import Array, Side
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.ratios import geometric_mean_ratio_paired
from pytest_crucible.stats.proportions.exact import paired_exact_test
from pytest_crucible.stats.sequential.paced_bets import betting_bound


def coverage_of_pairs(figure: Figure) -> None:
    """Coverage against the number of pairs, from 10 to 150.

    The Wald interval climbs from 0.5 to 0.94, the paired t interval with it. The exact one falls from 1 and stays above the
    nominal 0.95.
    """
    axes, sizes = figure.subplots(), (10, 15, 20, 30, 40, 50, 70, 100, 150)
    methods = (_exact, _paired_t, _wald)
    shares = [[_coverage(method, n, 0.05, 0.02) for method in methods] for n in sizes]
    curves(axes, sizes, shares, ("exact", "paired t", "Wald"))
    nominal(axes, 0.95)
    axes.set(xscale="log", xlabel="pairs", ylabel="coverage", ylim=(0.45, 1.02))
    ticks(axes, sizes)
    axes.legend(loc="lower right")


def _exact(gained: int, lost: int, n: int) -> Interval:
    interval = paired_exact_test(gained, lost, n).interval
    assert interval is not None
    return interval


def _coverage(interval: Callable[[int, int, int], Interval], n: int, gain: float, loss: float) -> float:
    """Return the probability that an interval covers the true difference of paired rates, summed over all outcomes."""
    covered = 0.0
    for gained, lost in ((b, c) for b in range(n + 1) for c in range(n + 1 - b)):
        ways = comb(n, gained) * comb(n - gained, lost)
        chance = ways * gain**gained * loss**lost * (1 - gain - loss) ** (n - gained - lost)
        # Rarer outcomes would not change the third digit, and most outcomes are rarer.
        if chance > 1e-9:
            ends = interval(gained, lost, n)
            covered += chance * (ends.low <= gain - loss <= ends.high)
    return covered


def _paired_t(gained: int, lost: int, n: int) -> Interval:
    interval = stats.paired_t([1.0] * gained + [-1.0] * lost + [0.0] * (n - gained - lost)).interval
    mean = (gained - lost) / n
    # The textbook's interval where nothing varies.
    return interval or Interval(low=mean, high=mean, level=0.95, method="t")


def _wald(gained: int, lost: int, n: int) -> Interval:
    mean = (gained - lost) / n
    half = 1.959963984540054 * max(0.0, gained + lost - (gained - lost) ** 2 / n) ** 0.5 / n
    return Interval(low=mean - half, high=mean + half, level=0.95, method="wald")


def false_passes_at_a_margin(figure: Figure) -> None:
    """Share of runs in which a candidate that is worse by the margin passes, against the number of pairs, from 20 to 500.

    By the plain t bound it falls from 0.37 to 0.08. By Gaffke's and by the betting bound it rises from 0 to at most
    0.05.
    """
    axes, sizes = figure.subplots(), (20, 30, 50, 100, 200, 500)
    curves(axes, sizes, [_false_passes(n, choose_runs(400)) for n in sizes], ("Gaffke", "betting (guaranteed)", "t"))
    nominal(axes, 0.05)
    axes.set(xscale="log", xlabel="pairs", ylabel="runs that pass wrongly", ylim=(-0.005, None))
    ticks(axes, sizes)
    axes.legend()


def _false_passes(n: int, runs: int) -> list[float]:
    """Return the false passes with losses of 0.6 to 1 on 5 % of the samples, at a margin of their mean."""
    rng = np.random.default_rng(n)
    losses = (rng.random((runs, n)) < 0.05) * rng.uniform(0.6, 1.0, (runs, n))
    bounds: tuple[Callable[[Array], float], ...] = (
        lambda values: stats.gaffke_bound(values, end=-1.0, alpha=0.05, side="lower"),
        lambda values: betting_bound(values, bounds=(-1, 1), alpha=0.05, side="lower"),
        lambda values: stats.t_bound(values, alpha=0.05, side="lower") or 0.0,  # None when nothing failed
    )
    return [sum(bound(-loss) > -0.04 for loss in losses) / runs for bound in bounds]


def misses_of_the_bootstrap(figure: Figure) -> None:
    """Share of 95 % intervals that miss the true mean against n, from 10 to 200.

    Percentile and t miss about 0.3 at 10 samples and 0.22 at 20, and come near 0.05 at 100. Gaffke's bounds miss in
    0 to 0.05 throughout.
    """
    axes, sizes = figure.subplots(), (10, 15, 20, 30, 50, 100, 200)
    names = ("Gaffke", "t", "percentile bootstrap")
    curves(axes, sizes, [_misses(n, choose_runs(300)) for n in sizes], names)
    nominal(axes, 0.05)
    axes.set(xscale="log", xlabel="samples", ylabel="intervals that miss the truth", ylim=(0, None))
    ticks(axes, sizes)
    axes.legend()


def _misses(n: int, runs: int) -> list[float]:
    """Return the share of intervals that miss the mean of scores with 8 % zeros, the others near 0.875."""
    rng, truth = np.random.default_rng(n), 0.92 * 14 / 16
    methods: tuple[Callable[[Array], Interval | None], ...] = (
        _gaffke_interval,
        stats.mean_interval,
        lambda scores: stats.bootstrap(scores, np.mean, method="percentile", resamples=1000).interval,
    )
    samples = [np.where(rng.random(n) < 0.08, 0.0, np.round(rng.beta(14, 2, n), 2)) for _ in range(runs)]
    intervals = [[method(scores) for scores in samples] for method in methods]
    return [
        sum(interval is None or not interval.low <= truth <= interval.high for interval in of_method) / runs
        for of_method in intervals
    ]


def _gaffke_interval(scores: Array) -> Interval:
    ends: tuple[tuple[float, Side], ...] = ((0.0, "lower"), (1.0, "upper"))
    low, high = (stats.gaffke_bound(scores, end=end, alpha=0.025, side=side) for end, side in ends)
    return Interval(low=low, high=high, level=0.95, method="gaffke")


def power_for_a_slowdown(figure: Figure) -> None:
    """Share of runs that detect a slowdown of 10 % against the number of pairs, from 20 to 500.

    The ratio of geometric means detects it in 0.1 of the runs at 20 pairs and in 0.9 at 500, the mean difference never
    in more than 0.2.
    """
    axes, sizes = figure.subplots(), (20, 50, 100, 200, 500)
    curves(
        axes,
        sizes,
        [_power_for_slowdown(n, choose_runs(500)) for n in sizes],
        ("ratio of geometric means", "mean difference"),
    )
    axes.set(xscale="log", xlabel="pairs", ylabel="runs that detect the slowdown", ylim=(0, 1))
    ticks(axes, sizes)
    axes.legend()


def _power_for_slowdown(n: int, runs: int) -> tuple[float, float]:
    """Return the power of logarithms and of means, where 1 % of the calls hang."""
    rng, by_ratio, by_mean = np.random.default_rng(n), 0, 0
    for _ in range(runs):
        load, noise = rng.lognormal(0.0, 0.8, n), rng.lognormal(0.0, 0.35, (2, n))
        old, new = load * np.where(rng.random((2, n)) < 0.01, 15, 1) * noise * np.array([[1.0], [1.1]])
        by_ratio += (geometric_mean_ratio_paired(new, old).p_value or 0) <= 0.05
        by_mean += (stats.paired_t(new, old).p_value or 0) <= 0.05
    return by_ratio / runs, by_mean / runs
