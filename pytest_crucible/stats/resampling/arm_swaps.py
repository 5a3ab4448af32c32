"""Permutation test of two ratios of means: are the two arms of each unit exchangeable?

Under "a sample's two replies could be exchanged" each unit, a sample or a group, is as likely with its arms swapped, so the
test is exact for any values and sizes. The statistic is the difference of the ratios over its standard error, which each
arrangement computes anew (studentised: Janssen 1997, Statistics & Probability Letters 36:9; Chung & Romano 2013, Annals of
Statistics 41:484). It is a function of six sums, so all draws are one pass over the units.
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.means.ratio_differences import RatioArm
from pytest_crucible.stats.resampling.sign_flips import draw_sums, list_sums

DRAWS = 9_999
MOST_UNITS = 2_000
"""More units are joined into as many blocks, which are swapped together: a subgroup of the swaps, so that the test stays exact."""
# Statistics that are this close are ties, and ties count as extreme.
_TIE = 1e-9
_ROUNDING = 1e-12


def swap_p_value(candidate: RatioArm, baseline: RatioArm, *, seed: int = 0) -> float:
    """Return the two-sided p-value: the share of arrangements whose statistic is as large, the observed one included.

    All arrangements are counted where there are at most DRAWS.

    >>> ones, sizes = np.ones(8), np.ones(8)
    >>> swap_p_value(RatioArm(ones, sizes), RatioArm(0 * ones, sizes))  # 2 of 256 arrangements
    0.0078125
    """
    generator = np.random.default_rng(seed)
    first, second = _join_units(candidate, baseline, generator)
    ours, theirs = _columns(first, second), _columns(second, first)
    # A swap exchanges the two rows of a unit: the sums of the first arm are half of all, plus or minus half of each difference.
    middle, halves = (ours + theirs).sum(axis=0) / 2, (ours - theirs) / 2
    same = float(first.totals @ second.totals), float(first.sizes @ second.sizes)
    observed = float(_statistics(middle, halves.sum(axis=0)[None], same)[0])
    counts_all = 2 ** min(len(halves), MOST_UNITS) <= DRAWS
    arranged = list_sums(halves) if counts_all else draw_sums(halves, DRAWS, generator)
    hits = int((_statistics(middle, arranged, same) >= observed * (1 - _TIE)).sum())
    return hits / len(arranged) if counts_all else (hits + 1) / (DRAWS + 1)


def _columns(first: RatioArm, second: RatioArm) -> Array:
    """Return what the statistic sums of one arm, unit by unit: units x 6."""
    totals, sizes = first.totals, first.sizes
    return np.column_stack((totals, sizes, totals**2, totals * sizes, sizes**2, totals * second.sizes))


def _statistics(middle: Array, arranged: Array, same: tuple[float, float]) -> Array:
    """Return the absolute studentised difference of each arrangement; 0 where an arm has no values.

    `same` are the sums of products of both arms' totals, and of their sizes, which no swap changes.
    """
    ours, theirs = (middle + arranged).T, (middle - arranged).T
    # Rounding leaves a part of 0.
    there = np.minimum(ours[1], theirs[1]) > _TIE * middle[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = ours[0] / ours[1], theirs[0] / theirs[1]
        squares = sum(
            (arm[2] - 2 * ratio * arm[3] + ratio**2 * arm[4]) / arm[1] ** 2
            for arm, ratio in zip((ours, theirs), ratios, strict=True)
        )
        products = same[0] - ratios[1] * ours[5] - ratios[0] * theirs[5] + ratios[0] * ratios[1] * same[1]
        variances = squares - 2 * products / (ours[1] * theirs[1])
        # A variance that is rounding is 0.
        errors = np.sqrt(np.where(variances > _ROUNDING * squares, variances, 0.0))
        differences = np.abs(ratios[0] - ratios[1])
        return np.where(there & (differences > 0), differences / errors, 0.0)


def _join_units(candidate: RatioArm, baseline: RatioArm, generator: np.random.Generator) -> tuple[RatioArm, RatioArm]:
    units = len(candidate.totals)
    if units <= MOST_UNITS:
        return candidate, baseline
    blocks = generator.permutation(units) % MOST_UNITS

    def join(arm: RatioArm) -> RatioArm:
        totals, sizes = (np.bincount(blocks, weights=part) for part in (arm.totals, arm.sizes))
        return RatioArm(np.asarray(totals, dtype=np.float64), np.asarray(sizes, dtype=np.float64))

    return join(candidate), join(baseline)
