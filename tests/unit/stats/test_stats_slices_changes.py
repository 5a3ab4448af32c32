"""Change of a gap, a ratio and a worst mean: Adult's reference, gaps that reverse, and interval and p-value that agree."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats.slices.changes import arm_means, change_of_extreme
from pytest_crucible.stats.slices.slicing import Slicing

# UCI Adult by sex: both selected, only by v1, only by v2, neither.
WOMEN, MEN = (1778, 555, 144, 8294), (5041, 693, 593, 15463)


def paired_slices(*slices):
    """Both arms' values, candidate first, from the four counts of each slice (both, old only, new only, neither)."""
    codes = np.repeat(np.arange(len(slices)), [sum(counts) for counts in slices])
    old = np.concatenate([np.repeat([1.0, 1, 0, 0], counts) for counts in slices])
    new = np.concatenate([np.repeat([1.0, 0, 1, 0], counts) for counts in slices])
    slicing = Slicing(codes=codes, names=tuple("abcdef"[: len(slices)]))
    return [arm_means([arm], [arm], slicing, None, (0.0, 1.0)) for arm in (new, old)]


def test_adult_became_less_fair():
    change = change_of_extreme("gap", *paired_slices(WOMEN, MEN), alpha=0.05)

    assert change.value == pytest.approx(0.033569, abs=1e-6)
    assert (change.low, change.high) == (pytest.approx(0.028, abs=0.003), pytest.approx(0.039, abs=0.003))
    assert change.p_value < 1e-20


def test_a_gap_that_reverses_at_equal_size_has_not_changed():
    reversed_gap = (500, 300, 0, 200), (500, 0, 300, 200)

    change = change_of_extreme("gap", *paired_slices(*reversed_gap), alpha=0.05)

    assert change.value == 0
    assert change.low < 0 < change.high
    assert change.p_value > 0.9


def test_one_slice_that_falls_is_found():
    change = change_of_extreme("gap", *paired_slices((700, 100, 0, 200), (760, 40, 40, 160)), alpha=0.05)

    assert change.value == pytest.approx(0.1)
    assert change.low > 0


@pytest.mark.parametrize("kind", ["gap", "ratio", "worst"])
@pytest.mark.parametrize("seed", range(6))
def test_the_interval_excludes_0_exactly_where_the_p_value_of_the_bounds_is_small(kind, seed):
    rng = np.random.default_rng(seed)
    arms = paired_slices(*[tuple(rng.integers(5, 60, 4)) for _ in range(3)])

    change = change_of_extreme(kind, *arms, alpha=0.05)

    assert (change.proof_p <= 0.05) == (change.low > 0 or change.high < 0)
    assert change.low <= change.lower <= change.upper <= change.high
    swapped = change_of_extreme(kind, *reversed(arms), alpha=0.05)
    assert (swapped.value, swapped.low) == (pytest.approx(-change.value), pytest.approx(-change.high))


def test_the_worst_mean_may_be_the_largest():
    arms = paired_slices((40, 10, 0, 50), (20, 0, 0, 80))

    assert change_of_extreme("worst", *arms, alpha=0.05).value == pytest.approx(0.0)
    assert change_of_extreme("worst", *arms, alpha=0.05, takes_smallest=False).value == pytest.approx(-0.1)


def test_without_a_rate_in_a_slice_there_is_no_change():
    slicing = Slicing(codes=np.array([0, 0, 1, 1]), names=("a", "b"))
    values = np.array([1.0, 0.0, np.nan, np.nan])
    arms = [arm_means([values], [values], slicing, None, (0.0, 1.0)) for _ in range(2)]

    assert change_of_extreme("gap", *arms, alpha=0.05).value is None
