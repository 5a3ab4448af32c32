"""Permutation tests of "the two replies to a sample could be exchanged", with a studentised difference.

Under that hypothesis every arrangement is as likely as the observed one, whatever the shape of the scores, so that the tests are
exact for any number of samples, also for scores without bounds (Pesarin & Salmaso 2010, Permutation Tests for Complex Data;
Hemerik, Goeman & Finos 2020, J. R. Stat. Soc. B 82:841). They say nothing of the mean alone: arms may differ in shape and have
one mean. That a *mean* is lower is shown by a bound (`means.gaffke`).

The statistic of a sum S with variance estimate R over G units is S / sqrt(R + S^2 / G). It grows with S / sqrt(R), the studentised
sum, and stays finite where R is 0: equal differences are the strongest evidence that there is, and no special case.

Two ratios of means: each unit, a sample or a group, is as likely with its arms swapped, so the test is exact for any values and
sizes. The statistic is the difference of the ratios, studentised by the linearised variance of each arrangement (Janssen 1997,
Stat. Probab. Lett. 36:9; Chung & Romano 2013, Ann. Stat. 41:484). It is a function of six sums, of which a swap changes the signs
of half their differences, so that the draws are those of sign flips.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from pytest_crucible.stats.arrays import ROUNDING, Alternative, Array, Codes
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.ratio_bounds import RatioArm
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.resampling.draws import (
    CELLS,
    DRAWS,
    MOST_UNITS,
    TIE,
    UNSEEDED,
    Draw,
    Keys,
    MonteCarlo,
    Units,
    draw_sums,
    group_units,
    hash_positions,
    list_sums,
    list_units,
    p_value_of_draws,
)
from pytest_crucible.stats.results import Alikeness

MOST_LISTED = DRAWS
# 2^13 sign patterns are fewer than the random ones.
MOST_FLIPPED = 13
# Fewer blocks of the smaller arm would leave too few arrangements.
FEWEST_BLOCKS = 20


def flip_signs(
    differences: Array,
    *,
    clusters: Codes | None = None,
    keys: Keys | None = None,
    alternative: Alternative = "two-sided",
    monte_carlo: MonteCarlo = UNSEEDED,
) -> Alikeness:
    """Return the sign-flip test of paired differences; whole clusters flip together. R: coin::oneway_test of pairs.

    All flips are counted up to 13 units that are not 0, otherwise 9,999 or more are drawn. Raises NotEnoughData below two
    differences.
    """
    check_pairs(differences.size)
    return flip_units(group_units(differences, clusters, keys), alternative=alternative, monte_carlo=monte_carlo)


def check_pairs(count: int) -> None:
    """Raise NotEnoughData below two pairs."""
    # One pair has an interval, but it is nearly [-1, 1] and would only look like a result.
    if count < 2:
        raise NotEnoughData(f"{quantity(count, 'pair')}: a comparison needs at least 2")


def flip_units(
    units: Units, *, alternative: Alternative = "two-sided", monte_carlo: MonteCarlo = UNSEEDED
) -> Alikeness:
    """Return the sign-flip test of units that are joined already."""
    units = Units(scale_down(units.totals), units.sizes)
    columns = units.totals[:, None]
    if (units.sizes != units.sizes[0]).any():
        columns = np.stack((units.totals, units.totals * units.sizes), axis=1)
    statistic = _tail(lambda sums: _studentise_flips(sums, units), alternative)
    observed = float(statistic(columns.sum(axis=0)[None, :])[0])
    columns, count = _without_order(columns), units.totals.size
    smallest = (1 if alternative != "two-sided" else 2) / 2.0 ** min(count, 1000)
    everything = statistic(list_sums(columns)) if len(columns) <= MOST_FLIPPED else None

    def draw(n: int, rng: np.random.Generator) -> Array:
        return statistic(draw_sums(columns, n, rng))

    return _compare_arrangements("sign flips", everything, draw, observed, monte_carlo, smallest, count)


def exchange_labels(
    candidate: Array,
    baseline: Array,
    *,
    clusters: tuple[Codes, Codes] | None = None,
    alternative: Alternative = "two-sided",
    monte_carlo: MonteCarlo = UNSEEDED,
) -> Alikeness:
    """Return the permutation test of two independent arms; clusters, each in one arm, change the arm as a whole.

    R: coin::oneway_test, with Welch's statistic (Janssen 1997, Stat. Probab. Lett. 36:9). Raises NotEnoughData below two values or
    clusters in an arm, and for a cluster that is in both.

    >>> exchange_labels(np.array([5.0, 6.0, 7.0, 8.0]), np.array([1.0, 2.0, 3.0, 4.0])).p_value
    0.02857142857142857
    """
    first, second = _columns_of_arms(candidate, baseline, clusters)
    columns = np.concatenate((first.moved, second.moved))
    # Sorted, so that the order of samples changes no draw.
    columns = columns[np.lexsort(columns.T)]
    whole = columns.sum(axis=0) + first.fixed + second.fixed
    counts, size, units = (first.units, second.units), len(first.moved), len(columns)
    statistic = _tail(lambda sums: _studentise_labels(sums + first.fixed, whole, counts), alternative)
    observed = float(statistic(first.moved.sum(axis=0)[None, :])[0])
    ways = math.comb(units, size)
    smallest = (2 if alternative == "two-sided" and 2 * size == units else 1) / min(ways, 10**300)
    everything = None
    if ways <= MOST_LISTED:
        members = np.array(list(combinations(range(units), size)))
        everything = statistic(columns[members].sum(axis=1))

    def draw(n: int, rng: np.random.Generator) -> Array:
        return statistic(_draw_subsets(columns, size, n, rng))

    return _compare_arrangements("exchanged labels", everything, draw, observed, monte_carlo, smallest, units)


def _compare_arrangements(
    method: str,
    everything: Array | None,
    draw: Draw,
    observed: float,
    monte_carlo: MonteCarlo,
    smallest: float,
    units: int,
) -> Alikeness:
    """Return the result from the statistics of all arrangements, or of random ones where there are too many (None)."""
    if everything is None:
        p_value, draws = p_value_of_draws(draw, observed, monte_carlo)
    else:
        p_value = int(np.count_nonzero(everything >= observed - TIE)) / everything.size
    return Alikeness(
        method=method,
        p_value=p_value,
        smallest=smallest,
        arrangements=draws + 1 if everything is None else everything.size,
        exact=everything is not None,
        seed=monte_carlo.seed if everything is None else None,
        units=units,
    )


def scale_down(values: Array, largest: float | None = None) -> Array:
    """Return the values in units of the largest, because squares of huge or tiny ones have no float; rounding becomes 0."""
    own = float(np.abs(values).max(initial=0.0))
    if own == 0 or (largest is not None and own <= ROUNDING * largest):
        return np.zeros_like(values)
    return values / own


def _tail(statistic: Callable[[Array], Array], alternative: Alternative) -> Callable[[Array], Array]:
    """Return the statistic, turned so that large values are evidence for the alternative."""
    if alternative == "two-sided":
        return lambda sums: np.abs(statistic(sums))
    return statistic if alternative == "greater" else lambda sums: -statistic(sums)


# -- pairs ----------------------------------------------------------------------------------------------------------


def _without_order(columns: Array) -> Array:
    """Return the columns without their signs, sorted, so that neither the order of samples nor that of the arms changes a draw.

    A unit of 0 has no sign to flip, and is left out.
    """
    flipped = np.abs(columns[columns[:, 0] != 0])
    return np.asarray(flipped[np.lexsort(flipped.T)])


def _studentise_flips(sums: Array, units: Units) -> Array:
    totals, sizes = units
    flipped = sums[:, 0]
    mean = flipped / sizes.sum()
    products = sums[:, 1] if sums.shape[1] > 1 else flipped * sizes[0]
    # Sum of (signed total - mean x size)^2, of which only the middle term depends on the signs.
    residual = totals @ totals - 2 * mean * products + mean**2 * (sizes @ sizes)
    return studentise(flipped, residual, totals.size)


def studentise(difference: Array, variance: Array, units: int) -> Array:
    """Return a difference over its standard error, bounded by the root of the units."""
    scale = np.sqrt(np.maximum(variance, 0.0) + difference**2 / units)
    return np.divide(difference, scale, out=np.zeros_like(difference), where=scale > 0)


# -- independent arms -------------------------------------------------------------------------------------------------


class _ArmColumns(NamedTuple):
    """The sums by which the statistic of an assignment of units to arms is known, of the units of one arm."""

    moved: Array
    """Blocks of units that may change the arm: blocks x 5."""
    fixed: Array
    """The sums of the units that stay."""
    units: int


def _columns_of_arms(
    candidate: Array, baseline: Array, clusters: tuple[Codes, Codes] | None
) -> tuple[_ArmColumns, _ArmColumns]:
    ours, theirs = clusters or (None, None)
    if ours is not None and theirs is not None and np.intersect1d(ours, theirs).size:
        raise NotEnoughData("labels of clusters that are in both arms cannot be exchanged")
    # Centred, so that values far from 0 keep their digits.
    pooled = np.concatenate((candidate, baseline))
    centred = scale_down(pooled - pooled.mean(), float(np.abs(pooled).max(initial=0.0)))
    arms = [_label_columns(centred[: candidate.size], ours), _label_columns(centred[candidate.size :], theirs)]
    fewest, count = min(map(len, arms)), sum(map(len, arms))
    if fewest < 2:
        raise NotEnoughData("a comparison needs at least 2 values or clusters in each arm")
    # Blocks of one size, exchanged whole, are a subgroup of all exchanges; so is every one that leaves some units in place.
    block = min(-(-count // MOST_UNITS), max(1, fewest // FEWEST_BLOCKS))
    first, second = (_join_blocks(columns, block) for columns in arms)
    return first, second


def _label_columns(values: Array, clusters: Codes | None) -> Array:
    """Return totals, sizes and their products: units x 5, in an order that depends on no score."""
    totals, sizes = list_units(values, clusters)
    return np.stack((totals, sizes, totals**2, totals * sizes, sizes**2), axis=1)


def _join_blocks(columns: Array, block: int) -> _ArmColumns:
    blocks = min(len(columns) // block, MOST_UNITS)
    moved = columns[: blocks * block].reshape(blocks, block, -1).sum(axis=1)
    return _ArmColumns(moved, columns[blocks * block :].sum(axis=0), len(columns))


def _studentise_labels(sums: Array, whole: Array, units: tuple[int, int]) -> Array:
    ours, theirs = _mean_and_variance(sums, units[0]), _mean_and_variance(whole - sums, units[1])
    return studentise(ours[0] - theirs[0], ours[1] + theirs[1], sum(units))


def _mean_and_variance(sums: Array, units: int) -> tuple[Array, Array]:
    """Return the mean of an arm and its squared standard error, between the arm's units."""
    total, size, squares, products, squared_sizes = sums.T
    mean = total / size
    residual = squares - 2 * mean * products + mean**2 * squared_sizes
    return mean, np.maximum(residual, 0.0) / size**2 * units / (units - 1)


def _draw_subsets(columns: Array, size: int, draws: int, rng: np.random.Generator) -> Array:
    """Return sums of the columns over random subsets of units: draws x columns."""
    rows, pieces = max(1, CELLS // len(columns)), []
    for start in range(0, draws, rows):
        keys = rng.random((min(rows, draws - start), len(columns)))
        # The smallest keys of a row mark a random subset.
        members = np.zeros(keys.shape)
        np.put_along_axis(members, np.argpartition(keys, size - 1, axis=1)[:, :size], 1.0, axis=1)
        pieces.append(members @ columns)
    return np.concatenate(pieces)


SWAPPED_ARMS = "swapped arms"
# A sum of sizes below this part of all of them is rounding.
_NO_SIZE = 1e-9


def swap_arms(
    candidate: RatioArm, baseline: RatioArm, *, keys: Keys | None = None, monte_carlo: MonteCarlo = UNSEEDED
) -> Alikeness:
    """Return the two-sided test of two ratios on the same units, each in both arms; `keys` have one number a unit.

    All swaps are counted up to 13 units, otherwise 9,999 or more are drawn.
    """
    order = np.argsort(hash_positions(candidate.sizes.size) if keys is None else keys, kind="stable")
    first, second = (_join_units(arm, order) for arm in _centre(candidate, baseline))
    ours, theirs = _swap_columns(first, second), _swap_columns(second, first)
    # A swap exchanges the two rows of a unit: the sums of an arm are half of all, plus or minus half of each difference.
    middle, halves = (ours + theirs).sum(axis=0) / 2, (ours - theirs) / 2
    same = float(first.totals @ second.totals), float(first.sizes @ second.sizes)
    units = len(halves)

    def statistic(arranged: Array) -> Array:
        return np.abs(_studentise_ratios(middle + arranged, middle - arranged, same, units))

    observed = float(statistic(halves.sum(axis=0)[None])[0])
    size = 2.0 ** min(units, 1000)
    everything = statistic(list_sums(halves)) if size <= MOST_LISTED else None

    def draw(n: int, rng: np.random.Generator) -> Array:
        return statistic(draw_sums(halves, n, rng))

    return _compare_arrangements(SWAPPED_ARMS, everything, draw, observed, monte_carlo, 2 / size, units)


def _centre(candidate: RatioArm, baseline: RatioArm) -> tuple[RatioArm, RatioArm]:
    """Return arms whose ratios are around 0 and no larger than 1, because values far from 0 lose the digits of their squares."""
    sizes = float(candidate.sizes.sum() + baseline.sizes.sum())
    middle = float(candidate.totals.sum() + baseline.totals.sum()) / sizes if sizes else 0.0
    largest = float(max(np.abs(candidate.totals).max(initial=0.0), np.abs(baseline.totals).max(initial=0.0)))
    both = np.concatenate([arm.totals - middle * arm.sizes for arm in (candidate, baseline)])
    first, second = np.split(scale_down(both, largest), 2)
    return RatioArm(first, candidate.sizes), RatioArm(second, baseline.sizes)


def _join_units(arm: RatioArm, order: np.typing.NDArray[np.intp]) -> RatioArm:
    """Return the units in this order, above 2,000 of them joined into blocks that are swapped together."""
    totals, sizes = arm.totals[order], arm.sizes[order]
    if order.size <= MOST_UNITS:
        return RatioArm(totals, sizes)
    starts = np.arange(MOST_UNITS) * order.size // MOST_UNITS
    return RatioArm(np.add.reduceat(totals, starts), np.add.reduceat(sizes, starts))


def _swap_columns(first: RatioArm, second: RatioArm) -> Array:
    """Return what the statistic sums of one arm, unit by unit: units x 6."""
    totals, sizes = first.totals, first.sizes
    return np.column_stack((totals, sizes, totals**2, totals * sizes, sizes**2, totals * second.sizes))


def _studentise_ratios(ours: Array, theirs: Array, same: tuple[float, float], units: int) -> Array:
    """Return the statistic of each arrangement from the sums of both arms; 0 where an arm has no values.

    `same` are the sums of products of both arms' totals, and of their sizes, which no swap changes.
    """
    first, second = ours.T, theirs.T
    there = np.minimum(first[1], second[1]) > _NO_SIZE * (first[1] + second[1])
    sizes = np.where(there, first[1], 1.0), np.where(there, second[1], 1.0)
    ratios = first[0] / sizes[0], second[0] / sizes[1]
    squares = sum(
        (sums[2] - 2 * ratio * sums[3] + ratio**2 * sums[4]) / size**2
        for sums, ratio, size in zip((first, second), ratios, sizes, strict=True)
    )
    products = same[0] - ratios[1] * first[5] - ratios[0] * second[5] + ratios[0] * ratios[1] * same[1]
    variance = squares - 2 * products / (sizes[0] * sizes[1])
    return studentise(np.where(there, ratios[0] - ratios[1], 0.0), variance, units)
