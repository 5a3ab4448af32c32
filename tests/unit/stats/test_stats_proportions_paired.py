"""Paired proportions beyond Tango: intervals that reports use, McNemar's chi-square, discordant odds, Cochran's Q."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.proportions.cochran import cochran_q
from pytest_crucible.stats.proportions.paired import (
    discordant_odds,
    mcnemar_asymptotic,
    mcnemar_exact,
    tango_p_value,
)
from pytest_crucible.stats.proportions.paired_intervals import (
    agresti_min_interval,
    bonett_price_interval,
    paired_newcombe_interval,
    paired_wald_interval,
)

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
TABLES = st.tuples(*[st.integers(0, 60)] * 4).filter(sum)
OF_COUNTS = [bonett_price_interval, agresti_min_interval, paired_wald_interval]


@pytest.mark.parametrize("interval", OF_COUNTS)
@given(TABLES, LEVELS)
def test_intervals_are_ordered_and_swap(interval, table, level):
    both, gained, lost, neither = table
    n = both + gained + lost + neither

    one, other = interval(gained, lost, n, level=level), interval(lost, gained, n, level=level)

    assert -1 <= one.low <= one.high <= 1
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-15)


@given(TABLES, LEVELS, st.booleans())
def test_newcombe_contains_the_difference_and_swaps(table, level, correction):
    both, gained, lost, neither = table

    one = paired_newcombe_interval(both, gained, lost, neither, level=level, correction=correction)
    other = paired_newcombe_interval(both, lost, gained, neither, level=level, correction=correction)
    mirrored = paired_newcombe_interval(neither, lost, gained, both, level=level, correction=correction)

    assert -1 - 1e-12 <= one.low <= (gained - lost) / sum(table) <= one.high <= 1 + 1e-12
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-12)
    assert (one.low, one.high) == pytest.approx((-mirrored.high, -mirrored.low), abs=1e-12)


def test_the_correction_of_phi_widens():
    plain = paired_newcombe_interval(40, 6, 2, 20, correction=False)
    corrected = paired_newcombe_interval(40, 6, 2, 20)

    assert corrected.low < plain.low
    assert plain.high < corrected.high


def test_without_pairs_everything_is_possible():
    for interval in (*(method(0, 0, 0) for method in OF_COUNTS), paired_newcombe_interval(0, 0, 0, 0)):
        assert (interval.low, interval.high) == (-1.0, 1.0)
    assert tango_p_value(0, 0, 0) == 1.0


def test_intervals_are_cut_only_when_asked():
    assert bonett_price_interval(3, 0, 3).high == 1.0
    assert bonett_price_interval(3, 0, 3, clip=False).high > 1.0
    assert agresti_min_interval(3, 0, 3, clip=False).high > agresti_min_interval(3, 0, 3).high == 1.0


def test_impossible_counts_are_refused():
    for interval in OF_COUNTS:
        with pytest.raises(ValueError, match="gained=5, lost=4"):
            interval(5, 4, 8)
    with pytest.raises(ValueError, match="lost=-1"):
        paired_newcombe_interval(3, 2, -1, 4)


# -- McNemar ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_chi_square_without_correction_is_tangos_test_at_0(gained, lost):
    plain, corrected = mcnemar_asymptotic(gained, lost), mcnemar_asymptotic(gained, lost, correction=True)

    assert plain.p_value == pytest.approx(tango_p_value(gained, lost, gained + lost), rel=1e-12)
    assert plain.p_value <= corrected.p_value <= 1
    assert mcnemar_asymptotic(lost, gained) == plain


def test_mcnemar_by_hand():
    result = mcnemar_asymptotic(13, 6)

    assert result.statistic == pytest.approx(49 / 19)
    assert mcnemar_asymptotic(13, 6, correction=True).statistic == pytest.approx(36 / 19)
    assert mcnemar_asymptotic(3, 2, correction=True).p_value == 1.0


def test_no_discordant_pair_is_degenerate():
    result = mcnemar_asymptotic(0, 0)

    assert (result.status, result.statistic, result.p_value) == ("degenerate", None, 1.0)
    assert discordant_odds(0, 0).value is None
    assert (discordant_odds(0, 0).interval.low, discordant_odds(0, 0).interval.high) == (0.0, math.inf)


@given(st.integers(0, 200), st.integers(0, 200), LEVELS)
def test_discordant_odds_exclude_1_exactly_when_the_exact_test_rejects(gained, lost, level):
    effect, p_value = discordant_odds(gained, lost, level=level), mcnemar_exact(gained, lost)

    if abs(p_value - (1 - level)) > 1e-12:
        assert (effect.interval.low > 1 or effect.interval.high < 1) == (p_value < 1 - level)
    if effect.value is not None:
        assert effect.interval.low <= effect.value <= effect.interval.high


def test_discordant_odds_without_losses_are_infinite():
    effect = discordant_odds(5, 0)

    assert (effect.value, effect.interval.high) == (math.inf, math.inf)
    assert effect.interval.low == pytest.approx(1 / (0.025**-0.2 - 1))
    assert discordant_odds(0, 5).value == 0.0


# -- Cochran's Q --------------------------------------------------------------------------------------------------

BITS = st.lists(st.lists(st.sampled_from([0, 1]), min_size=2, max_size=2), min_size=1, max_size=40)


@given(BITS)
def test_for_two_arms_q_is_mcnemars_chi_square(matrix):
    gained = sum(row == [1, 0] for row in matrix)
    lost = sum(row == [0, 1] for row in matrix)

    result, mcnemar = cochran_q(matrix), mcnemar_asymptotic(gained, lost)

    assert result.p_value == pytest.approx(mcnemar.p_value, rel=1e-9)
    assert result.statistic == (None if mcnemar.statistic is None else pytest.approx(mcnemar.statistic))


@given(st.lists(st.lists(st.sampled_from([0, 1]), min_size=4, max_size=4), min_size=1, max_size=30), st.randoms())
def test_q_ignores_order_and_undecided_samples(matrix, random):
    result = cochran_q(matrix)
    columns = random.sample(range(4), 4)

    again = cochran_q([[row[i] for i in columns] for row in random.sample(matrix, len(matrix))])

    assert 0 <= result.p_value <= 1
    assert again.p_value == pytest.approx(result.p_value, rel=1e-9)
    assert cochran_q([*matrix, [1] * 4, [0] * 4]).p_value == pytest.approx(result.p_value, rel=1e-9)


def test_cochran_at_its_edges():
    assert cochran_q([[1, 1, 1]] * 5).status == "degenerate"
    assert (cochran_q([[1, 1, 1]] * 5).statistic, cochran_q([[1, 1, 1]] * 5).p_value) == (None, 1.0)
    with pytest.raises(ValueError, match="1 of 6 values are neither 0 nor 1"):
        cochran_q([[1, 0, 0.5], [1, 1, 0]])
    with pytest.raises(ValueError, match="1 of 6 matrix entries are NaN"):
        cochran_q([[1, 0, math.nan], [1, 1, 0]])
    with pytest.raises(ValueError, match=r"\(5, 1\)"):
        cochran_q([[1]] * 5)
