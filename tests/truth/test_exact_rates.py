"""Yes-or-no results, exactly: no test and no bound that decides errs more often than alpha, at any n and for any true rates."""

from __future__ import annotations

import math

import pytest
from exact_rates import (
    arms_beyond_the_truth,
    false_alarms_of_arms,
    false_alarms_of_pairs,
    pairs_beyond_the_truth,
    targets_beyond_the_truth,
)
from run_sizes import FULL

from pytest_crucible.stats import paired_exact_p_value, tango_interval, tango_p_value
from pytest_crucible.stats.proportions import exact as paired_exact
from pytest_crucible.stats.proportions.exact import paired_exact_bound, two_exact_p_value

pytestmark = pytest.mark.slow

ALPHAS = (0.05, 0.01, 0.005)
MANY_N = range(1, 61) if FULL else (*range(1, 21), 25, 30, 36, 45, 60)
GRID = 1.001
"""The largest probability over nuisance rates is found on a grid, and may be short by a thousandth of itself."""


@pytest.mark.parametrize("n", MANY_N)
def test_equal_arms_are_called_different_at_most_at_alpha(n):
    for alpha, share in zip(ALPHAS, false_alarms_of_pairs(n, ALPHAS, paired_exact_p_value), strict=True):
        assert share <= alpha * GRID


def test_the_asymptotic_test_exceeds_its_level():
    """The enumeration finds the fault that it is there to find: .125 with 4 pairs, .065 with 50."""
    assert false_alarms_of_pairs(4, (0.05,), tango_p_value) == [pytest.approx(0.125)]
    assert false_alarms_of_pairs(50, (0.05,), tango_p_value) == [pytest.approx(0.065, abs=5e-4)]


@pytest.mark.parametrize(
    ("n", "alpha"),
    [
        *((n, 0.05) for n in MANY_N),
        *((n, alpha) for alpha in (0.025, 0.01, 0.005) for n in (2, 3, 4, 5, 8, 12, 20, 30, 45, 60)),
    ],
)
def test_bounds_of_pairs_are_beyond_the_truth_in_at_most_alpha(n, alpha):
    """A margin is met when the lower bound is above its negative; the upper bound is that of the swapped arms."""
    [share] = pairs_beyond_the_truth(n, (alpha,))
    assert share <= alpha * GRID


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.005, 0.0005])
@pytest.mark.parametrize("others", [1, 1.2, 3])
@pytest.mark.parametrize("agreeing", [0, 0.3, 9])
def test_with_many_discordant_pairs_the_shifted_limits_are_wider_than_the_exact_ones(
    others, agreeing, alpha, monkeypatch
):
    """So their error rates hold as well."""
    fewer, more = paired_exact.MANY, int(others * paired_exact.MANY)
    n = int((fewer + more) * (1 + agreeing))
    for gained, lost in ((fewer, more), (more, fewer)):
        shifted = paired_exact_bound(gained, lost, n, alpha=alpha, side="lower")
        with monkeypatch.context() as patched:
            patched.setattr(paired_exact, "MANY", math.inf)
            paired_exact._paired_lower.cache_clear()
            exact = paired_exact_bound(gained, lost, n, alpha=alpha, side="lower")
        paired_exact._paired_lower.cache_clear()
        assert shifted < exact
        assert exact - shifted < 0.1 * math.sqrt(gained + lost) / n
        assert shifted < tango_interval(gained, lost, n, level=1 - 2 * alpha).low


# -- two independent arms, and one --------------------------------------------------------------------------------

SIZES = [*((n, n) for n in (1, 2, 3, 4, 5, 8, 12, 20, 30)), (5, 60), (60, 5), (10, 30), (30, 10)]
SIZES += [(45, 45), (60, 60), (30, 45)] if FULL else []


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equal_independent_arms_are_called_different_at_most_at_alpha(sizes):
    for alpha, share in zip(ALPHAS, false_alarms_of_arms(sizes, ALPHAS, two_exact_p_value), strict=True):
        assert share <= alpha * GRID


@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.005])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bounds_of_independent_arms_are_beyond_the_truth_in_at_most_alpha(sizes, alpha):
    [share] = arms_beyond_the_truth(sizes, (alpha,))
    assert share <= alpha * GRID


@pytest.mark.parametrize("n", MANY_N)
def test_bounds_of_one_rate_are_beyond_the_truth_in_at_most_alpha(n):
    """And nearly in alpha: the bound is no wider than it has to be."""
    for alpha, share in zip(ALPHAS, targets_beyond_the_truth(n, ALPHAS), strict=True):
        assert 0.999 * alpha < share <= alpha * (1 + 1e-9)
