"""Drift of a field of categories: the chi-squared test of two rows of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from pytest_crucible.stats.data_drift.result import FieldDrift
from pytest_crucible.stats.interval import NotEnoughData

Counts = npt.NDArray[np.int64]
# Cochran (1954): the chi-squared distribution is a good approximation where at most a fifth of the expected counts are below
# 5, and none is below 1.
LEAST_EXPECTED, LEAST_OF_ALL, MOST_BELOW = 5.0, 1.0, 0.2
# With the observed table 5,000, so that p-values are multiples of 0.0002.
DRAWS = 4999
# Tables that are drawn at a time: a field may have thousands of categories.
_MOST_CELLS = 2_000_000
# Statistics of equal tables differ by less, relatively.
_ROUNDING = 1e-9


def compare_categories(old: Sequence[int], new: Sequence[int], *, seed: int = 0, draws: int = DRAWS) -> FieldDrift:
    """Return the chi-squared test of the counts of each category in two samples, in one order.

    As `scipy.stats.chi2_contingency(correction=False)`; where more than a fifth of the expected counts are below 5, or one is
    below 1, labels are permuted, and p = (1 + tables as extreme) / (1 + draws) (Phipson & Smyth 2010). Raises NotEnoughData for
    an empty sample, or one category only.
    """
    table = np.array([old, new], dtype=np.int64)
    table = table[:, table.sum(axis=0) > 0]
    sizes = table.sum(axis=1)
    if sizes.min() < 1 or table.shape[1] < 2:
        raise NotEnoughData("a comparison needs at least 2 categories, and values in each sample")
    expected = _expected_counts(table)
    statistic = float(_chi_squared(table[0], expected[0]) + _chi_squared(table[1], expected[1]))
    is_permuted = bool((expected < LEAST_EXPECTED).mean() > MOST_BELOW or expected.min() < LEAST_OF_ALL)
    degrees = table.shape[1] - 1
    p_value = _permuted_p(table, statistic, seed, draws) if is_permuted else float(chdtrc(degrees, statistic))
    share = table / sizes[:, None]
    return FieldDrift(
        test="chi-squared, permuted" if is_permuted else "chi-squared",
        statistic=statistic,
        p_value=p_value,
        n=(int(sizes[0]), int(sizes[1])),
        distance=float(np.abs(share[0] - share[1]).sum() / 2),
        # Half the sum of the standard deviations of the differences, largest for equal shares (Cauchy-Schwarz).
        noise=0.5 * math.sqrt((table.shape[1] - 1) * (1 / sizes[0] + 1 / sizes[1])),
        seed=seed if is_permuted else None,
    )


def same_value(old: int, new: int) -> FieldDrift:
    """Return the comparison of two samples that have one value only, and the same one: there is no drift to find."""
    return FieldDrift(
        test="chi-squared",
        statistic=0.0,
        p_value=1.0,
        n=(old, new),
        distance=0.0,
    )


def draw_tables(table: Counts, draws: int, seed: int) -> list[Counts]:
    """Return the first rows of tables with the same totals, as they come about when labels are exchanged at random, in parts."""
    totals, size = table.sum(axis=0), int(table[0].sum())
    generator = np.random.default_rng(seed)
    part = max(1, _MOST_CELLS // table.shape[1])
    return [
        generator.multivariate_hypergeometric(totals, size, size=min(part, draws - start), method="marginals")
        for start in range(0, draws, part)
    ]


def _permuted_p(table: Counts, statistic: float, seed: int, draws: int) -> float:
    expected, totals = _expected_counts(table), table.sum(axis=0)
    extreme = 0
    for rows in draw_tables(table, draws, seed):
        drawn = _chi_squared(rows, expected[0]) + _chi_squared(totals - rows, expected[1])
        extreme += int((drawn >= statistic * (1 - _ROUNDING)).sum())
    return (1 + extreme) / (1 + draws)


def _expected_counts(table: Counts) -> npt.NDArray[np.float64]:
    expected: npt.NDArray[np.float64] = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return expected


def _chi_squared(counts: Counts, expected: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    cells: npt.NDArray[np.float64] = ((counts - expected) ** 2 / expected).sum(axis=-1)
    return cells
