"""Figures of many runs whose truth is known: how often each method is wrong, and how often it finds what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pytest_crucible import stats
from pytest_crucible.records import Interval

def coverage_of_pairs(figure: Figure) -> None:
    """Coverage against the number of pairs, from 10 to 150. The Wald interval climbs from 0.5 to 0.94, the paired t
    interval with it; Tango's stays between 0.95 and 1."""
    axes, sizes = figure.subplots(), (10, 15, 20, 30, 40, 50, 70, 100, 150)
    methods = {"Tango": (stats.tango_interval, "o-"), "paired t": (_paired_t, "s--"), "Wald": (stats.paired_wald_interval, "^:")}
    for name, (interval, line) in methods.items():
        axes.plot(sizes, [_coverage(interval, n, 0.05, 0.02) for n in sizes], line, label=name)
    _nominal(axes, 0.95)
    axes.set(xscale="log", xlabel="pairs", ylabel="coverage", ylim=(0.45, 1.02))
    _ticks(axes, sizes)
    axes.legend(loc="lower right")


def _coverage(interval: Callable[[int, int, int], Interval], n: int, gain: float, loss: float) -> float:
    """Chance that an interval covers the true difference of paired rates, added up over all outcomes."""
    covered = 0.0
    for gained, lost in ((b, c) for b in range(n + 1) for c in range(n + 1 - b)):
        ways = comb(n, gained) * comb(n - gained, lost)
        chance = ways * gain**gained * loss**lost * (1 - gain - loss) ** (n - gained - lost)
        if chance > 1e-9:
            ends = interval(gained, lost, n)
            covered += chance * (ends.low <= gain - loss <= ends.high)
    return covered


def _paired_t(gained: int, lost: int, n: int) -> Interval:
    found = stats.paired_t([1.0] * gained + [-1.0] * lost + [0.0] * (n - gained - lost)).interval
    mean = (gained - lost) / n
    return found or Interval(low=mean, high=mean, level=0.95, method="t")  # what nothing varied would give


def _nominal(axes: Axes, rate: float) -> None:
    axes.axhline(rate, color="C3", linestyle="-", linewidth=0.8)
    axes.annotate("nominal", (0.01, rate), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points")


def _ticks(axes: Axes, sizes: Sequence[int]) -> None:
    """The sizes themselves under a logarithmic axis."""
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
