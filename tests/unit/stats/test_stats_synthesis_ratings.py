"""Bradley-Terry ratings: by hand, by logistic regression, when there are none, and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.synthesis.pairwise import count_wins
from pytest_crucible.stats.synthesis.ranking import compare_ratings, elo_ratings, rank_intervals
from pytest_crucible.stats.synthesis.ratings import bradley_terry, rate_judgements


@st.composite
def win_tables(draw: st.DrawFn):
    """Everyone has won and lost against the next one at least once, so that all can be rated."""
    size = draw(st.integers(2, 6))
    table = np.array(draw(st.lists(st.integers(0, 20), min_size=size**2, max_size=size**2)), float).reshape(size, size)
    for item in range(size):
        table[item, (item + 1) % size] += 1
    np.fill_diagonal(table, 0)
    return table


def simulated(rng, strengths, n):
    first = rng.integers(len(strengths), size=n)
    second = (first + rng.integers(1, len(strengths), size=n)) % len(strengths)
    chance = 1 / (1 + np.exp(strengths[second] - strengths[first]))
    return first, second, (rng.random(n) < chance).astype(float)


def test_two_items_by_hand():
    ratings = bradley_terry([[0, 30], [10, 0]], items=["new", "old"])
    compared = compare_ratings(ratings, "new", "old")

    assert compared.estimate == pytest.approx(math.log(3))
    assert compared.se == pytest.approx(math.sqrt(1 / 30 + 1 / 10))
    assert compared.effects[0].value == pytest.approx(0.75)
    assert ratings.strengths == pytest.approx((math.log(3) / 2, -math.log(3) / 2))
    assert ratings.comparisons == 40


@pytest.mark.slow
def test_strengths_and_errors_are_those_of_a_logistic_regression():
    import statsmodels.api as sm

    first, second, scores = simulated(np.random.default_rng(1), np.array([1, 0.5, 0, -0.5, -1.0]), 500)
    design = np.zeros((500, 5))
    design[np.arange(500), first], design[np.arange(500), second] = 1, -1
    fitted = sm.Logit(scores, design[:, 1:]).fit(disp=0, method="newton", tol=1e-14)
    centre = np.eye(5) - 1 / 5
    wanted = centre @ np.append(0, fitted.params)
    covariance = np.zeros((5, 5))
    covariance[1:, 1:] = fitted.cov_params()

    ratings = rate_judgements(zip(first.tolist(), second.tolist(), scores.tolist(), strict=True))
    place = [ratings.items.index(item) for item in range(5)]

    assert np.array(ratings.strengths)[place] == pytest.approx(wanted, abs=1e-8)
    assert ratings.covariance[np.ix_(place, place)] == pytest.approx(centre @ covariance @ centre, abs=1e-8)


def test_cluster_robust_errors_are_those_of_a_logistic_regression():
    import statsmodels.api as sm

    rng = np.random.default_rng(2)
    first, second, scores = simulated(rng, np.array([0.5, 0, -0.5]), 300)
    clusters = rng.integers(0, 25, 300)
    design = np.zeros((300, 3))
    design[np.arange(300), first], design[np.arange(300), second] = 1, -1
    fitted = sm.Logit(scores, design[:, 1:]).fit(
        disp=0, method="newton", tol=1e-14, cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )

    ratings = rate_judgements(zip(first.tolist(), second.tolist(), scores.tolist(), strict=True), clusters=clusters)
    compared = compare_ratings(ratings, 1, 0)

    assert compared.estimate == pytest.approx(fitted.params[0], abs=1e-8)
    assert compared.se == pytest.approx(fitted.bse[0] * math.sqrt(25 / 24), rel=1e-8)
    assert compared.dof == (24,)


@given(win_tables(), st.integers(0, 99))
def test_the_order_of_the_items_does_not_matter(table, seed):
    order = np.random.default_rng(seed).permutation(len(table))
    ratings, shuffled = bradley_terry(table), bradley_terry(table[np.ix_(order, order)], items=order.tolist())

    assert shuffled.strengths == pytest.approx([ratings.strengths[item] for item in order], abs=1e-9)
    assert shuffled.covariance == pytest.approx(ratings.covariance[np.ix_(order, order)], rel=1e-6, abs=1e-9)


@given(win_tables())
def test_twice_the_data_shrink_the_errors_by_the_root_of_two(table):
    ratings, doubled = bradley_terry(table), bradley_terry(2 * table)

    assert doubled.strengths == pytest.approx(ratings.strengths, abs=1e-9)
    assert doubled.covariance == pytest.approx(ratings.covariance / 2, rel=1e-6, abs=1e-9)


@given(win_tables())
def test_losing_instead_of_winning_flips_all_signs(table):
    ratings, turned = bradley_terry(table), bradley_terry(table.T)

    assert turned.strengths == pytest.approx(np.negative(ratings.strengths), abs=1e-9)


@given(win_tables())
def test_everyone_wins_as_often_as_the_strengths_say(table):
    """The likelihood equations; and the strengths and the rows of their covariance add up to 0."""
    ratings = bradley_terry(table)
    strengths = np.array(ratings.strengths)
    chances = 1 / (1 + np.exp(np.subtract.outer(-strengths, -strengths)))

    assert ((table + table.T) * chances).sum(axis=1) == pytest.approx(table.sum(axis=1))
    assert strengths.sum() == pytest.approx(0, abs=1e-9)
    assert ratings.covariance.sum(axis=1) == pytest.approx(np.zeros(len(table)), abs=1e-8)
    assert all(one.low < strength < one.high for one, strength in zip(ratings.intervals, strengths, strict=True))


@given(win_tables())
@settings(max_examples=choose_examples(50))
def test_comparisons_mirror_and_agree_with_their_intervals(table):
    ratings = bradley_terry(table)
    result, mirrored = compare_ratings(ratings, 0, 1), compare_ratings(ratings, 1, 0)

    assert mirrored.estimate == -result.estimate
    assert mirrored.p_value == result.p_value
    assert 0 <= result.p_value <= 1
    assert result.effects[0].value + mirrored.effects[0].value == pytest.approx(1)
    if min(abs(result.interval.low), abs(result.interval.high)) > 1e-9:
        assert (result.p_value < 0.05) == (result.interval.low > 0 or result.interval.high < 0)


@given(win_tables(), st.sampled_from([0.5, 0.95, 0.999]))
@settings(max_examples=choose_examples(50))
def test_rank_intervals_contain_the_rank_and_grow_with_the_level(table, level):
    ratings = bradley_terry(table)
    ranks, wider = rank_intervals(ratings, level=level), rank_intervals(ratings, level=0.9999)

    for one, other in zip(ranks, wider, strict=True):
        assert 1 <= other.best <= one.best <= one.rank <= one.worst <= other.worst <= len(table)


def test_rank_intervals_separate_only_what_the_data_do():
    ratings = bradley_terry([[0, 500, 900], [480, 0, 880], [100, 110, 0]], items=["a", "b", "c"])

    assert [(one.best, one.rank, one.worst) for one in rank_intervals(ratings)] == [(1, 1, 2), (1, 2, 2), (3, 3, 3)]


def test_elo_is_the_same_on_another_scale():
    ratings = bradley_terry([[0, 10], [1, 0]])
    first, second = elo_ratings(ratings, mean=1000)

    assert first.rating - second.rating == pytest.approx(400)
    assert first.rating + second.rating == pytest.approx(2000)
    assert (first.interval.high - 1000) / ratings.intervals[0].high == pytest.approx(400 / math.log(10))


def test_ties_are_half_a_win_of_each():
    judgements = [("a", "b"), ("b", "a"), ("a", "b", 0.5), ("b", "a", 0.5), ("b", "a", 0.0)]
    wins, items = count_wins(judgements)

    assert items == ("a", "b")
    assert wins.tolist() == [[0, 3], [2, 0]]
    assert rate_judgements(judgements).strengths == pytest.approx(bradley_terry(wins).strengths)


def test_one_cluster_per_judgement_is_close_to_the_information():
    first, second, scores = simulated(np.random.default_rng(3), np.array([0.4, 0, -0.4]), 3000)
    judgements = list(zip(first.tolist(), second.tolist(), scores.tolist(), strict=True))
    plain, robust = rate_judgements(judgements), rate_judgements(judgements, clusters=range(3000))

    assert robust.strengths == plain.strengths
    assert np.sqrt(np.diag(robust.covariance)) == pytest.approx(np.sqrt(np.diag(plain.covariance)), rel=0.05)


def test_judgements_copied_inside_clusters_do_not_count_as_more():
    first, second, scores = simulated(np.random.default_rng(4), np.array([0.4, 0, -0.4]), 400)
    judgements = list(zip(first.tolist(), second.tolist(), scores.tolist(), strict=True))
    once = rate_judgements(judgements, clusters=range(400))
    thrice = rate_judgements([one for one in judgements for _ in range(3)], clusters=np.arange(400).repeat(3))

    assert thrice.covariance == pytest.approx(once.covariance, rel=1e-6)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 3], [0, 0]], "none of new ever won against one of old"),
        ([[0, 0], [3, 0]], "none of new ever lost to one of old"),
        ([[0, 1, 0], [1, 0, 0], [0, 2, 0]], "none of third ever lost to one of old, new"),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], "none of third"),
    ],
)
def test_items_that_no_chain_of_wins_connects_are_named(table, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(table, items=["old", "new", "third"][: len(table)])


@given(win_tables(), st.integers(0, 2**30))
def test_what_cannot_be_rated_is_refused_and_everything_else_is_rated(table, holes):
    size = len(table)
    table[np.random.default_rng(holes).random((size, size)) < 0.6] = 0
    assume(table.any())
    connected = np.linalg.matrix_power(np.eye(size) + (table > 0), size).min() > 0

    if connected:
        assert np.isfinite(bradley_terry(table).strengths).all()
    else:
        with pytest.raises(ValueError, match="ridge="):
            bradley_terry(table)
    assert np.isfinite(bradley_terry(table, ridge=0.5).strengths).all()


def test_a_ridge_pulls_towards_nought_and_is_named():
    table = [[0, 30], [10, 0]]
    plain, weak, strong = (bradley_terry(table, ridge=ridge) for ridge in (0, 0.1, 10))

    assert plain.strengths[0] > weak.strengths[0] > strong.strengths[0] > 0
    assert plain.covariance[0, 0] > weak.covariance[0, 0] > strong.covariance[0, 0]
    assert strong.method == "bradley-terry, ridge 10"
    one_sided = bradley_terry([[0, 3], [0, 0]], ridge=1.0)
    chance = 1 / (1 + math.exp(-2 * one_sided.strengths[0]))
    assert 3 * (1 - chance) == pytest.approx(one_sided.strengths[0])


def test_too_little_is_refused():
    with pytest.raises(NotEnoughData, match="1 item"):
        bradley_terry([[0]])
    with pytest.raises(NotEnoughData, match="0 wins"):
        bradley_terry([[0, 0], [0, 0]])
    with pytest.raises(NotEnoughData, match="0 item"):
        rate_judgements([])
    with pytest.raises(NotEnoughData, match=r"4 clusters"):
        rate_judgements([("a", "b"), ("b", "a")] * 2, clusters=range(4))
    with pytest.raises(NotEnoughData, match="6 clusters with equal judgements"):
        rate_judgements([("a", "b", 0.5)] * 6, clusters=range(6))


@pytest.mark.parametrize(
    ("table", "items", "message"),
    [
        ([[0, 1, 2], [1, 0, 1]], None, "items x items"),
        ([[0, 1], [1, 0]], ["a"], "1 items for 2 rows: every row needs an item"),
        ([[0, -1], [1, 0]], None, "1 of 4 entries"),
        ([[0, math.nan], [1, 0]], None, "1 of 4 entries"),
        ([[1, 1], [1, 0]], None, "1 of 4 entries"),
    ],
)
def test_tables_that_cannot_be_are_refused(table, items, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(table, items=items)


def test_judgements_that_cannot_be_are_counted():
    with pytest.raises(ValueError, match="of 4 judgements 1 set an item against itself and 2 have a score outside"):
        count_wins([("a", "a"), ("a", "b", 2), ("a", "b", math.nan), ("a", "b")])
    with pytest.raises(ValueError, match="of the 2 rated items"):
        compare_ratings(bradley_terry([[0, 1], [1, 0]]), 0, 2)
    with pytest.raises(ValueError, match="not -1"):
        bradley_terry([[0, 1], [1, 0]], ridge=-1)


def test_few_clusters_for_many_items_are_noted():
    rng = np.random.default_rng(5)
    first, second, scores = simulated(rng, np.zeros(6), 300)
    judgements = list(zip(first.tolist(), second.tolist(), scores.tolist(), strict=True))

    assert (
        "8 clusters for 6 items: with so few, errors may be too small"
        in rate_judgements(judgements, clusters=np.arange(300) % 8).note
    )
    assert not rate_judgements(judgements, clusters=np.arange(300) % 40).note
