"""Drift of a field of numbers: the two-sample Kolmogorov-Smirnov test, with permuted labels where values are tied."""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.data_drift.categories import DRAWS, Counts, draw_tables
from pytest_crucible.stats.data_drift.result import FieldDrift
from pytest_crucible.stats.interval import NotEnoughData

# E sup |F_n - F| sqrt(n) is at most the integral of the bound of Dvoretzky, Kiefer & Wolfowitz (Massart 1990), 2 exp(-2 x^2).
_MEAN_SUPREMUM = math.sqrt(math.pi / 2)
# More distinct values are joined to so many steps before labels are permuted: a step holds a thousandth of the values.
_MOST_STEPS = 1000
# Statistics of equal tables differ by less.
_ROUNDING = 1e-12


def compare_numbers(old: npt.ArrayLike, new: npt.ArrayLike, *, seed: int = 0, draws: int = DRAWS) -> FieldDrift:
    """Return the Kolmogorov-Smirnov test of two samples of numbers, as `scipy.stats.ks_2samp` computes it.

    The p-value is exact for at most 10,000 values in each sample, otherwise asymptotic. Both assume that no two values are
    equal, and ties make them too large: .198 for two samples of 0 and 1 where the chi-squared test gives .0006. So where
    values are tied, labels are permuted, and p = (1 + permutations as extreme) / (1 + draws) (Phipson & Smyth 2010), unless
    the p-value without ties, which is an upper bound, is smaller than that could be. Raises NotEnoughData for fewer than two
    values in either sample.
    """
    first, second = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    if min(len(first), len(second)) < 2:
        raise NotEnoughData("a comparison needs at least 2 values in each sample")
    statistic, p_value = _without_ties(first, second)
    values, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    is_permuted = len(values) < len(codes) and p_value > 1 / (1 + draws)
    if is_permuted:
        p_value = _permuted_p(_step_counts(codes, len(first)), seed, draws)
    noise = _MEAN_SUPREMUM * (1 / math.sqrt(len(first)) + 1 / math.sqrt(len(second)))
    return FieldDrift(
        test="Kolmogorov-Smirnov, permuted" if is_permuted else "Kolmogorov-Smirnov",
        statistic=statistic,
        p_value=p_value,
        n=(len(first), len(second)),
        distance=statistic,
        noise=noise,
        seed=seed if is_permuted else None,
    )


def _without_ties(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the statistic, and its p-value if no two values were equal."""
    with warnings.catch_warnings():
        # Of an exact p-value that is too small to be computed: scipy returns the asymptotic one.
        warnings.simplefilter("ignore", RuntimeWarning)
        # It takes a second to import, and most sessions compare no columns.
        from scipy import stats

        result = stats.ks_2samp(first, second)
    return float(result.statistic), min(1.0, float(result.pvalue))


def _step_counts(codes: npt.NDArray[np.intp], old: int) -> Counts:
    """Return how many values of the old (row 0) and of the new sample are on each step of the pooled distribution."""
    totals = np.bincount(codes)
    steps = np.arange(len(totals))
    if len(totals) > _MOST_STEPS:
        # By the pooled values alone, which permuted labels leave as they are: so the test stays exact.
        _, steps = np.unique((np.cumsum(totals) - totals) * _MOST_STEPS // len(codes), return_inverse=True)
    counts = [np.bincount(steps[part], minlength=int(steps.max()) + 1) for part in (codes[:old], codes[old:])]
    return np.array(counts, dtype=np.int64)


def _permuted_p(table: Counts, seed: int, draws: int) -> float:
    statistic = _statistics(table[:1], table)[0]
    extreme = sum(
        int((_statistics(rows, table) >= statistic - _ROUNDING).sum()) for rows in draw_tables(table, draws, seed)
    )
    return (1 + extreme) / (1 + draws)


def _statistics(rows: Counts, table: Counts) -> npt.NDArray[np.float64]:
    """Return the largest difference of the distribution functions for each first row of a table with these totals."""
    sizes, totals = table.sum(axis=1), np.cumsum(table.sum(axis=0))
    below = np.cumsum(rows, axis=1)
    largest: npt.NDArray[np.float64] = np.abs(below / sizes[0] - (totals - below) / sizes[1]).max(axis=1)
    return largest
