"""Signs and ranks of paired differences: by hand, by enumeration of all sign flips, and against scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.proportions.paired import tango_interval, tango_p_value
from pytest_crucible.stats.ranks.superiority import paired_superiority

DIFFERENCES = st.integers(-4, 4).map(float)
FEW = st.lists(DIFFERENCES, min_size=1, max_size=9)


# -- effects --------------------------------------------------------------------------------------------------------


@given(FEW, st.sampled_from([0.8, 0.95]))
def test_paired_superiority_is_tango_in_other_words(differences, level):
    nothing = [0.0] * len(differences)
    result, swapped = (
        paired_superiority(*arms, level=level) for arms in ((differences, nothing), (nothing, differences))
    )
    greater, less, n = sum(d > 0 for d in differences), sum(d < 0 for d in differences), len(differences)
    tango = tango_interval(greater, less, n, level=level)

    assert result.estimate == pytest.approx((greater + (n - greater - less) / 2) / n)
    assert 2 * result.interval.low - 1 == pytest.approx(tango.low)
    assert 2 * result.interval.high - 1 == pytest.approx(tango.high)
    assert result.p_value == tango_p_value(greater, less, n) == swapped.p_value
    assert result.estimate + swapped.estimate == pytest.approx(1)
    assert (result.interval.low > 0.5 or result.interval.high < 0.5) == (result.p_value < 1 - level)


def test_equal_pairs_still_bound_how_often_one_arm_could_win():
    result = paired_superiority([3, 4, 5] * 10, [3, 4, 5] * 10)

    assert (result.status, result.p_value, result.estimate, result.statistic) == ("degenerate", 1.0, 0.5, None)
    assert 0.4 < result.interval.low < 0.5 < result.interval.high < 0.6
    with pytest.raises(NotEnoughData, match="no pairs"):
        paired_superiority([], [])
