"""Diversity of ensembles: worked examples, laws, and the limits of what data can say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from pytest_crucible import stats
from pytest_crucible.stats.interval import NotEnoughData

RIGHT = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=30)


def table(both_right, first_only, second_only, both_wrong):
    """Two members' right and wrong answers with these counts."""
    cells = [(1, 1)] * both_right + [(1, 0)] * first_only + [(0, 1)] * second_only + [(0, 0)] * both_wrong
    return [list(column) for column in zip(*cells, strict=True)]


# -- error correlation ------------------------------------------------------------------------------------------------


def test_phi_of_a_table_by_its_formula():
    """(ad - bc) / sqrt of the product of the margins."""
    phi = stats.error_correlation(*table(40, 10, 5, 45))

    assert phi.value == pytest.approx((40 * 45 - 10 * 5) / math.sqrt(50 * 50 * 45 * 55), rel=1e-15)
    assert phi.value == pytest.approx(stats.pearson(*table(40, 10, 5, 45)).estimate, rel=1e-14)


def test_its_interval_is_the_delta_methods_on_the_enlarged_table():
    """Variance of phi by Bishop, Fienberg & Holland, written out for four cells; Fisher's z, t with n - 1."""
    a, b, c, d = (count + 0.5 for count in (40, 10, 5, 45))
    n = a + b + c + d
    p, q, phi = (a + b) / n, (a + c) / n, (a * d - b * c) / math.sqrt((a + b) * (c + d) * (a + c) * (b + d))
    u, v = p * (1 - p), q * (1 - q)
    variance = 1 - phi**2 + phi * (1 + phi**2 / 2) * (1 - 2 * p) * (1 - 2 * q) / math.sqrt(u * v)
    variance -= 0.75 * phi**2 * ((1 - 2 * p) ** 2 / u + (1 - 2 * q) ** 2 / v)
    half = -stdtrit(99, 0.025) * math.sqrt(variance / n * 100 / 99) / (1 - phi**2)
    interval = stats.error_correlation(*table(40, 10, 5, 45)).interval

    assert interval.low == pytest.approx(math.tanh(math.atanh(phi) - half), rel=1e-9)
    assert interval.high == pytest.approx(math.tanh(math.atanh(phi) + half), rel=1e-9)


def test_members_that_always_err_together_have_an_interval_up_to_one():
    phi = stats.error_correlation(*table(30, 0, 0, 10))

    assert (phi.value, phi.interval.high) == (1.0, 1.0)
    assert 0.5 < phi.interval.low < 0.95


def test_errors_that_never_meet_do_not_prove_that_they_never_will():
    """10 and 8 errors of 100, none in common: independent ones would meet 0.8 times."""
    phi = stats.error_correlation(*table(82, 8, 10, 0))

    assert phi.value < 0
    assert phi.interval.low < phi.value < 0 < phi.interval.high


@pytest.mark.parametrize("columns", [table(20, 0, 5, 0), table(20, 5, 0, 0), table(9, 0, 0, 0)])
def test_who_never_errs_has_no_error_correlation(columns):
    phi = stats.error_correlation(*columns)

    assert (phi.value, phi.interval) == (None, None)
    assert phi.note == "a model that is always right, or always wrong, has no error correlation"


def test_clusters_that_all_say_the_same_widen_the_interval():
    first, second = table(8, 4, 3, 5)
    plain = stats.error_correlation(first, second).interval
    labels = np.repeat(np.arange(20), 4)
    copied = [np.repeat(column, 4) for column in (first, second)]
    alone, grouped = (
        stats.error_correlation(*copied).interval,
        stats.error_correlation(*copied, clusters=labels).interval,
    )

    assert alone.high - alone.low < 0.6 * (plain.high - plain.low)
    assert grouped.high - grouped.low == pytest.approx(plain.high - plain.low, rel=0.15)


@given(pairs=RIGHT)
def test_phi_is_the_same_from_either_side_and_turns_with_one_of_them(pairs):
    first, second = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    phi, turned = stats.error_correlation(first, second), stats.error_correlation(first, 1 - second)

    assert stats.error_correlation(second, first).value == phi.value
    assert stats.error_correlation(1 - first, 1 - second).value == phi.value
    if phi.value is not None:
        assert turned.value == -phi.value
        assert -1 <= phi.interval.low <= phi.value <= phi.interval.high <= 1
        assert turned.interval.low == pytest.approx(-phi.interval.high)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (([0, 1, 0.5], [0, 1, 1]), "1 of 6 values are neither 0 (wrong) nor 1 (right)"),
        (([0, 1], [0, 1, 1]), "pairs need equal lengths: 2 first values, 3 second values"),
    ],
)
def test_other_values_are_refused(columns, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        stats.error_correlation(*columns)


def test_too_few_are_too_few():
    with pytest.raises(NotEnoughData, match="2 pairs: a correlation needs at least 3"):
        stats.error_correlation([0, 1], [1, 1])
    with pytest.raises(NotEnoughData):
        stats.error_correlation([0, 1, 1, 0], [1, 1, 0, 0], clusters=list("aabb"))


# -- an ensemble and its members --------------------------------------------------------------------------------------

MEMBERS = np.array(
    [
        [1, 1, 1, 1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 0, 1, 1, 1, 0, 1, 0],
    ],
    dtype=float,
)
VOTE = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0], dtype=float)


def test_a_worked_example():
    result = stats.member_diversity(MEMBERS, VOTE)

    assert [single.estimate for single in result.members] == [0.6, 0.6, 0.7]
    assert (result.n, result.best, result.oracle.estimate, result.combined.estimate, result.note) == (
        10,
        2,
        0.9,
        0.7,
        "",
    )
    assert [(single.first, single.second, single.n) for single in result.pairs] == [(0, 1, 10), (0, 2, 10), (1, 2, 10)]
    assert [single.disagreement.estimate for single in result.pairs] == [0.4, 0.3, 0.5]
    assert [single.double_fault.estimate for single in result.pairs] == [0.2, 0.2, 0.1]
    assert result.pairs[0].correlation == stats.error_correlation(MEMBERS[0], MEMBERS[1])
    assert result.oracle == stats.estimate(MEMBERS.max(axis=0), kind="binary")


def test_samples_that_a_member_did_not_answer_count_where_it_is_not_needed():
    members = MEMBERS.copy()
    members[2, :4] = np.nan
    result = stats.member_diversity(members, VOTE)

    assert (result.n, [single.n for single in result.pairs]) == (6, [10, 6, 6])
    assert result.oracle.estimate == pytest.approx(5 / 6)
    assert result.note.startswith("only samples that every member answered")


def test_where_no_sample_was_answered_by_all_there_is_nothing_to_say():
    members = MEMBERS.copy()
    members[0, :5], members[1, 5:] = np.nan, np.nan
    result = stats.member_diversity(members, VOTE)

    assert (result.n, result.members, result.best, result.oracle, result.combined) == (0, (), None, None, None)
    assert (result.pairs[0].n, result.pairs[0].disagreement, result.pairs[0].double_fault) == (0, None, None)
    assert result.pairs[0].correlation.note == "0 pairs: a correlation needs at least 3"


def test_repeats_are_averaged_inside_the_sample_and_are_no_new_samples():
    repeated = np.repeat(MEMBERS[..., None], 4, axis=2)
    result = stats.member_diversity(repeated, np.repeat(VOTE[:, None], 4, axis=1))
    pair = result.pairs[0]

    assert (result.n, pair.n, pair.disagreement.n, pair.disagreement.estimate) == (10, 10, 10, 0.4)
    assert pair.correlation.value == pytest.approx(stats.error_correlation(MEMBERS[0], MEMBERS[1]).value)
    assert pair.correlation.interval.high - pair.correlation.interval.low > 1.0


def test_groups_are_clusters_of_everything():
    members, vote = np.tile(MEMBERS, 3), np.tile(VOTE, 3)
    result = stats.member_diversity(members, vote, clusters=np.repeat(np.arange(6), 5))

    assert {
        single.clusters for single in (result.oracle, result.combined, *result.members, result.pairs[0].disagreement)
    } == {6}
    with pytest.raises(ValueError, match="every sample needs a cluster: 30 samples, 6 cluster labels"):
        stats.member_diversity(members, vote, clusters=range(6))


ANSWERS = st.integers(2, 4).flatmap(
    lambda members: st.lists(
        st.lists(st.sampled_from([0.0, 1.0]), min_size=members, max_size=members), min_size=1, max_size=12
    )
)


@given(rows=ANSWERS)
def test_the_oracle_is_no_worse_than_anybody_and_shares_add_up(rows):
    members = np.array(rows).T
    result = stats.member_diversity(members, members[0])

    assert (
        result.oracle.estimate
        >= max(single.estimate for single in result.members)
        == result.members[result.best].estimate
    )
    for pair in result.pairs:
        both_right = float((members[pair.first] * members[pair.second]).mean())
        assert pair.disagreement.estimate + pair.double_fault.estimate + both_right == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("members", "combined", "sentence"),
    [
        ([[1, 0]], [1, 0], r"expected at least 2 members x samples \(x repeats\), not the shape \(1, 2\)"),
        ([1, 0], [1, 0], r"expected at least 2 members"),
        ([[1, 0], [1, 1]], [1], r"the ensemble's values have the shape \(1,\), not that of its members, \(2,\)"),
        ([[1, 0], [1, 2]], [1, 0], r"1 of 6 values are neither 0 \(wrong\) nor 1 \(right\)"),
    ],
)
def test_what_is_no_table_of_right_and_wrong_is_refused(members, combined, sentence):
    with pytest.raises(ValueError, match=sentence):
        stats.member_diversity(members, combined)
