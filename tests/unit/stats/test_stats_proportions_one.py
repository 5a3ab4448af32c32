"""One proportion: the intervals that reports use, the exact test, and clustered samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.proportions.one import (
    clopper_pearson_interval,
    wilson_interval,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
INTERVALS = [
    wilson_interval,
    lambda x, n, level=0.95: wilson_interval(x, n, level=level, correction=True),
    clopper_pearson_interval,
]
NAMES = ["wilson", "wilson-cc", "clopper-pearson"]
every_interval = pytest.mark.parametrize("interval", INTERVALS, ids=NAMES)


@st.composite
def successes(draw: st.DrawFn, largest: int = 300) -> tuple[int, int]:
    n = draw(st.integers(1, largest))
    return draw(st.integers(0, n)), n


@every_interval
def test_nothing_asked_leaves_everything_possible(interval):
    assert (interval(0, 0).low, interval(0, 0).high) == (0.0, 1.0)


@every_interval
@pytest.mark.parametrize("counts", [(5, 4), (-1, 4), (0, -1)])
def test_impossible_counts_are_refused(interval, counts):
    with pytest.raises(ValueError, match="at most n="):
        interval(*counts)


@every_interval
@given(successes(), LEVELS)
def test_intervals_lie_inside_0_and_1_and_mirror_for_failures(interval, counts, level):
    x, n = counts

    single, other = interval(x, n, level=level), interval(n - x, n, level=level)

    assert 0 <= single.low <= single.high <= 1
    assert (single.low, single.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-11)


@given(successes(), LEVELS)
def test_the_continuity_correction_only_widens(counts, level):
    plain, corrected = wilson_interval(*counts, level=level), wilson_interval(*counts, level=level, correction=True)

    assert corrected.low <= plain.low <= counts[0] / counts[1] <= plain.high + 1e-15
    assert plain.high <= corrected.high
    assert corrected != plain
