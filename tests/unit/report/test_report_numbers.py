"""Numbers as text: enough digits to be true, none that the interval does not earn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, p_value, points, with_interval


def interval(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, level=0.95, method="m")


@pytest.mark.parametrize(
    ("value", "low", "high", "printed"),
    [
        (0.56254738, 0.5356, 0.5891, "0.563 [0.536, 0.589]"),
        (0.96, 0.8654, 0.9890, "0.960 [0.865, 0.989]"),
        (1.0, 0.9888, 1.0, "1.000 [0.989, 1.000]"),
        (0.9, 0.8949, 0.9051, "0.900 [0.895, 0.905]"),
        (0.9, 0.8951, 0.9049, "0.9000 [0.8951, 0.9049]"),
        (-0.0001, -0.031, 0.03, "0.000 [-0.031, 0.030]"),
        (-1e-7, -4e-7, 2e-7, "0.000000 [0.000000, 0.000000]"),
        (-0.4, -20, 20, "0 [-20, 20]"),
        (0.0, 0.0, 0.0713, "0.000 [0.000, 0.071]"),
        (0.46917281, 0.46917201, 0.46917361, "0.469173 [0.469172, 0.469174]"),
        (0.00012, 0.0001, 0.00014, "0.000120 [0.000100, 0.000140]"),
        (1234.5678, 1200.0, 1270.0, "1,235 [1,200, 1,270]"),
        (12.345, 11.1, 13.7, "12.3 [11.1, 13.7]"),
        (123456.7, 90000, 160000, "123,457 [90,000, 160,000]"),
        (3.0, 1.5, math.inf, "3.0 [1.5, inf]"),
        (3.0, -math.inf, math.inf, "3.0 [-inf, inf]"),
        (-0.25, -0.4, -0.1, "-0.250 [-0.400, -0.100]"),
        (5.0, 5.0, 5.0, "5.0 [5.0, 5.0]"),
        (0.0, 0.0, 0.0, "0.000 [0.000, 0.000]"),
    ],
)
def test_an_estimate_is_shown_with_its_interval(value, low, high, printed):
    assert with_interval(value, interval(low, high)) == printed


@pytest.mark.parametrize(
    ("value", "low", "high", "printed"),
    [
        (0.0417, 0.012, 0.0713, "+0.042 [+0.012, +0.071]"),
        (-0.02, -0.11, 0.07, "-0.020 [-0.110, +0.070]"),
        (0.0, -0.07, 0.07, "+0.000 [-0.070, +0.070]"),
        (-0.0002, -0.07, 0.07, "-0.00020 [-0.070, +0.070]"),
        (-0.0302, -0.06, -0.0004, "-0.030 [-0.060, -0.00040]"),
        (1 / 3, -0.4149, 0.7921, "+0.333 [-0.415, +0.792]"),
        (1.5, -math.inf, math.inf, "+1.5 [-inf, inf]"),
    ],
)
def test_a_difference_is_shown_with_its_sign(value, low, high, printed):
    assert with_interval(value, interval(low, high), sign=True) == printed


def test_unknown_numbers_are_a_word():
    assert (number(None), with_interval(None, None)) == ("unknown", "unknown")
    assert with_interval(0.5, None) == "0.500 [no interval]"
    assert (number(math.inf), number(-math.inf)) == ("inf", "-inf")


finite = st.floats(-1e12, 1e12)


@given(finite, finite, st.booleans())
def test_zero_has_no_minus_sign(value, half, sign):
    printed = number(value, interval(value - abs(half), value + abs(half)), sign=sign)

    assert not (printed.startswith("-") and read(printed) == 0)


def read(text: str) -> float:
    return float(text.replace(",", ""))


@given(st.tuples(finite, finite, finite).map(sorted), st.booleans())
def test_the_shown_interval_contains_the_shown_estimate(three, sign):
    low, value, high = three
    printed = with_interval(value, interval(low, high), sign=sign)
    estimate, _, ends = printed.partition(" [")
    left, right = ends.rstrip("]").split(", ")

    assert read(left) <= read(estimate) <= read(right)


@given(
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted), st.sampled_from(["low", "high", "both"])
)
def test_an_interval_with_an_unknown_end_contains_the_estimate(three, which):
    low, value, high = three
    ends = interval(low if which == "high" else -math.inf, high if which == "low" else math.inf)
    estimate, _, printed = with_interval(value, ends).partition(" [")
    left, right = printed.rstrip("]").split(", ")

    assert read(left) <= read(estimate) <= read(right)


ordinary = st.integers(-(10**9), 10**9).map(lambda millionths: millionths / 10**6)
widths = st.integers(-4, 6).flatmap(lambda power: st.integers(10, 99).map(lambda digits: digits * 10.0 ** (power - 1)))


@given(ordinary, widths)
def test_numbers_are_exact_to_a_tenth_of_the_interval(value, half):
    """A share, to half of its third decimal at least."""
    ends = interval(value - half, value + half)
    width = ends.high - ends.low

    assert abs(read(number(value, ends)) - value) <= min(0.0005 if width < 2 else math.inf, width / 20) * (1 + 1e-6)


@given(ordinary, widths)
def test_the_width_of_the_interval_limits_the_digits(value, half):
    """At most two digits of the width; a share always has three decimals."""
    ends = interval(value - half, value + half)
    width = ends.high - ends.low
    decimals = len(number(value, ends).partition(".")[2])

    assert decimals <= max(3 if width < 2 else 0, 1 - math.floor(math.log10(width)))


@pytest.mark.parametrize(
    ("value", "printed"),
    [(None, "-"), (1.0, "1.000"), (0.0312, "0.031"), (0.001, "0.001"), (0.00099, "1e-03"), (3e-15, "3e-15"), (0.0, "<1e-15")],
)  # fmt: skip
def test_a_p_value_has_three_decimals_or_a_size(value, printed):
    assert p_value(value) == printed


@pytest.mark.parametrize(("value", "printed"), [(0.0617, "6.2 points"), (0.15, "15 points"), (0.004, "0.4 points")])
def test_shares_are_in_percentage_points(value, printed):
    assert points(value) == printed


def test_an_open_interval_has_the_digits_of_its_finite_half():
    late = Interval(low=1.5832, high=math.inf, level=0.95, method="order statistics")
    early = Interval(low=-math.inf, high=12.4, level=0.95, method="order statistics")

    assert with_interval(1.5984, late) == "1.598 [1.583, inf]"
    assert with_interval(12.0, early) == "12.000 [-inf, 12.400]"
    assert with_interval(7, None) == "7 [no interval]"
