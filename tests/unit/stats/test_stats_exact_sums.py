"""Exact sums: those of `math.fsum`, whatever the order and the split of the terms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.exact_sums import PIECE, ExactSum, GroupSums, exact_sum, exponent_of
from pytest_crucible.stats.means.units import MANY, PowerSums, rows_of_values

NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), max_size=60)


@given(NUMBERS)
@settings(max_examples=choose_examples(500))
def test_a_sum_is_that_of_fsum(values):
    try:
        expected = math.fsum(values)
    except OverflowError:
        # An intermediate sum of fsum is too large; the exact one may be, too.
        return

    assert exact_sum(np.array(values, dtype=float)) == expected


def test_a_tiny_value_beside_a_huge_one_keeps_its_bits():
    assert exact_sum(np.array([1.5e301, 3.2352592880679193e-298, -1.5e301])) == 3.2352592880679193e-298


@given(NUMBERS, st.randoms(use_true_random=False))
@settings(max_examples=choose_examples(200))
def test_neither_order_nor_split_changes_a_bit_of_a_sum(values, random):
    whole = ExactSum()
    whole.add(np.array(values, dtype=float))
    shuffled = random.sample(values, len(values))
    cut = random.randint(0, len(values))
    in_parts = ExactSum()
    for piece in (shuffled[:cut], shuffled[cut:]):
        in_parts.add(np.array(piece, dtype=float))

    assert in_parts.units == whole.units


def test_a_sum_of_more_terms_than_a_piece_holds_is_exact():
    values = np.random.default_rng(3).normal(size=100_001) * 10.0 ** np.random.default_rng(4).integers(-20, 20, 100_001)

    assert exact_sum(values) == math.fsum(values)


def test_sums_of_groups_are_exact_and_independent_of_the_split():
    rng = np.random.default_rng(5)
    values, codes = rng.random(5_000), rng.integers(0, 40, 5_000)
    exponent = exponent_of(0.0, 1.0)
    whole, in_parts = GroupSums(exponent), GroupSums(exponent)
    whole.add(codes, values)
    in_parts.add(codes[3_000:][::-1], values[3_000:][::-1])
    in_parts.add(codes[:3_000], values[:3_000])

    assert np.array_equal(in_parts.totals(), whole.totals())
    assert whole.totals().tolist() == [math.fsum(values[codes == group]) for group in range(40)]


def test_sums_of_powers_and_the_farthest_values_do_not_depend_on_the_split():
    values = np.random.default_rng(6).standard_t(3, size=4 * MANY)
    mean, ends = exact_sum(values) / values.size, (float(values.min()), float(values.max()))
    sums = PowerSums(mean, *ends)
    for piece in np.split(values[::-1], [100, 9_000]):
        sums.add(piece)
    ours, whole = sums.rows(), rows_of_values(values)

    assert ours.core == whole.core
    assert np.array_equal(ours.totals, whole.totals)
    # All values that are not among the farthest are nearer to the mean.
    assert np.sum(np.abs(values - mean) > whole.core.reach) < MANY


def test_sums_of_powers_are_those_of_single_values_to_the_last_place():
    """Several pieces, both signs, and the ends themselves, whose distances have the most bits."""
    values = np.concatenate((np.random.default_rng(8).uniform(-1, 1, size=PIECE), [-1.0, 1.0, 0.0, 2.0**-40]))
    whole = PowerSums(0.0, -1.0, 1.0)
    whole.add(values)

    first, fourth = (sum(_nearest_place(value, power) for value in values.tolist()) for power in (1, 4))

    assert whole.units[0] == first
    assert whole.units[3] == fourth


def _nearest_place(value: float, power: int) -> int:
    """Return a power in units of 2^-73: the nearest one to the float that the multiplications give."""
    # The power of two that no distance from the mean exceeds is 2.
    unit = product = value / 2
    for _ in range(power - 1):
        product *= unit
    return round(Fraction(product) * 2**73)


def test_the_second_moment_around_another_mean_is_that_of_the_values():
    values = np.random.default_rng(7).random(3 * MANY)
    rows = rows_of_values(values)
    others = np.setdiff1d(values, rows.totals)

    first, second = rows.core.moments(0.3)

    assert math.isclose(first, math.fsum(others - 0.3), rel_tol=1e-12)
    assert math.isclose(second, math.fsum((others - 0.3) ** 2), rel_tol=1e-12)
