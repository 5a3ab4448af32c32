"""Permutation test of two ratios of means: are the two arms of each unit exchangeable?

Under "a sample's two replies could be exchanged" each unit, a sample or a group, is as likely with its arms swapped, so the
test is exact for any values and sizes. The statistic is the difference of the ratios, studentised by the linearised variance of
each arrangement (Janssen 1997, Stat. Probab. Lett. 36:9; Chung & Romano 2013, Ann. Stat. 41:484), as `alikeness` has it of a
sum. It is a function of six sums, of which a swap changes the signs of half their differences, so that the draws are those of
sign flips.
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.means.ratio_bounds import RatioArm
from pytest_crucible.stats.resampling.alikeness import MOST_LISTED, of_all, of_draws, scale_down, studentise
from pytest_crucible.stats.resampling.draws import (
    MOST_UNITS,
    UNSEEDED,
    Keys,
    MonteCarlo,
    hash_positions,
    p_value_of_draws,
)
from pytest_crucible.stats.resampling.sign_flips import draw_sums, list_sums
from pytest_crucible.stats.results import Alikeness

METHOD = "swapped arms"
# A sum of sizes below this part of all of them is rounding.
_ROUNDING = 1e-9


def swap_arms(
    candidate: RatioArm, baseline: RatioArm, *, keys: Keys | None = None, monte_carlo: MonteCarlo = UNSEEDED
) -> Alikeness:
    """Return the two-sided test of two ratios on the same units, each in both arms; `keys` have one number a unit.

    All swaps are counted up to 13 units, otherwise 9,999 or more are drawn.

    >>> swap_arms(RatioArm(np.ones(8), np.ones(8)), RatioArm(np.zeros(8), np.ones(8))).p_value
    0.0078125
    """
    order = np.argsort(hash_positions(candidate.sizes.size) if keys is None else keys, kind="stable")
    first, second = (_join_blocks(arm, order) for arm in _centre(candidate, baseline))
    ours, theirs = _columns(first, second), _columns(second, first)
    # A swap exchanges the two rows of a unit: the sums of an arm are half of all, plus or minus half of each difference.
    middle, halves = (ours + theirs).sum(axis=0) / 2, (ours - theirs) / 2
    same = float(first.totals @ second.totals), float(first.sizes @ second.sizes)
    units = len(halves)

    def statistic(arranged: Array) -> Array:
        return np.abs(_studentise_ratios(middle + arranged, middle - arranged, same, units))

    observed = float(statistic(halves.sum(axis=0)[None])[0])
    size = 2.0 ** min(units, 1000)
    if size <= MOST_LISTED:
        return of_all(METHOD, statistic(list_sums(halves)), observed, 2 / size, units)
    p_value, draws = p_value_of_draws(lambda n, rng: statistic(draw_sums(halves, n, rng)), observed, monte_carlo)
    return of_draws(METHOD, p_value, draws, monte_carlo.seed, 2 / size, units)


def _centre(candidate: RatioArm, baseline: RatioArm) -> tuple[RatioArm, RatioArm]:
    """Return arms whose ratios are around 0 and no larger than 1, because values far from 0 lose the digits of their squares."""
    sizes = float(candidate.sizes.sum() + baseline.sizes.sum())
    middle = float(candidate.totals.sum() + baseline.totals.sum()) / sizes if sizes else 0.0
    largest = float(max(np.abs(candidate.totals).max(initial=0.0), np.abs(baseline.totals).max(initial=0.0)))
    both = np.concatenate([arm.totals - middle * arm.sizes for arm in (candidate, baseline)])
    first, second = np.split(scale_down(both, largest), 2)
    return RatioArm(first, candidate.sizes), RatioArm(second, baseline.sizes)


def _join_blocks(arm: RatioArm, order: np.typing.NDArray[np.intp]) -> RatioArm:
    """Return the units in this order, above 2,000 of them joined into blocks that are swapped together."""
    totals, sizes = arm.totals[order], arm.sizes[order]
    if order.size <= MOST_UNITS:
        return RatioArm(totals, sizes)
    starts = np.arange(MOST_UNITS) * order.size // MOST_UNITS
    return RatioArm(np.add.reduceat(totals, starts), np.add.reduceat(sizes, starts))


def _columns(first: RatioArm, second: RatioArm) -> Array:
    """Return what the statistic sums of one arm, unit by unit: units x 6."""
    totals, sizes = first.totals, first.sizes
    return np.column_stack((totals, sizes, totals**2, totals * sizes, sizes**2, totals * second.sizes))


def _studentise_ratios(ours: Array, theirs: Array, same: tuple[float, float], units: int) -> Array:
    """Return the statistic of each arrangement from the sums of both arms; 0 where an arm has no values.

    `same` are the sums of products of both arms' totals, and of their sizes, which no swap changes.
    """
    first, second = ours.T, theirs.T
    there = np.minimum(first[1], second[1]) > _ROUNDING * (first[1] + second[1])
    sizes = np.where(there, first[1], 1.0), np.where(there, second[1], 1.0)
    ratios = first[0] / sizes[0], second[0] / sizes[1]
    squares = sum(
        (sums[2] - 2 * ratio * sums[3] + ratio**2 * sums[4]) / size**2
        for sums, ratio, size in zip((first, second), ratios, sizes, strict=True)
    )
    products = same[0] - ratios[1] * first[5] - ratios[0] * second[5] + ratios[0] * ratios[1] * same[1]
    variance = squares - 2 * products / (sizes[0] * sizes[1])
    return studentise(np.where(there, ratios[0] - ratios[1], 0.0), variance, units)
