"""Means corrected by labels, rates freed of the judge's errors, and judges that prefer a place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pytest_crucible.stats.agreement.corrected import ppi_difference, ppi_mean
from pytest_crucible.stats.agreement.kappa import position_bias
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.t_tests import mean_interval

SCORES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
VERDICTS = st.sampled_from([0.0, 0.5, 1.0])
UNIT = (0.0, 1.0)


@st.composite
def draw_ratings(draw: st.DrawFn):
    """Labels, their predictions, and predictions of others."""
    n = draw(st.integers(2, 20))
    column = st.lists(SCORES, min_size=n, max_size=n)
    return draw(column), draw(column), draw(st.lists(SCORES, min_size=2, max_size=40))


@st.composite
def verdicts(draw: st.DrawFn):
    n = draw(st.integers(2, 30))
    column = st.lists(VERDICTS, min_size=n, max_size=n)
    return draw(column), draw(column)


@given(draw_ratings())
def test_lambda_nought_is_the_labels_alone(data):
    labels = data[0]
    result, alone = ppi_mean(*data, lam=0.0), mean_interval(labels)

    assert result.estimate == pytest.approx(np.mean(labels))
    if alone is None:
        assert (result.interval, result.status) == (None, "degenerate")
    else:
        assert (result.interval.low, result.interval.high) == pytest.approx((alone.low, alone.high))
        assert result.effective_labels == pytest.approx(len(labels))


@given(draw_ratings(), st.integers(-5, 5), st.sampled_from([None, 1.0]))
def test_a_constant_bias_of_the_judge_changes_nothing_but_the_bias(data, bias, lam):
    labels, predictions, others = data
    result = ppi_mean(labels, predictions, others, lam=lam)
    shifted = ppi_mean(labels, np.add(predictions, bias), np.add(others, bias), lam=lam)

    assert shifted.estimate == pytest.approx(result.estimate, abs=1e-9)
    assert shifted.se == pytest.approx(result.se, abs=1e-9)
    assert shifted.bias == pytest.approx(result.bias + bias)


def test_a_judge_without_errors_makes_every_judgement_a_label():
    rng = np.random.default_rng(1)
    truth = rng.random(1000)
    result = ppi_mean(truth[:100], truth[:100], truth[100:], lam=1.0)

    assert result.estimate == pytest.approx(truth[100:].mean())
    assert result.effective_labels == pytest.approx(900, rel=0.15)
    tuned = ppi_mean(truth[:100], truth[:100], truth[100:])
    assert tuned.tuning == pytest.approx(0.9, abs=0.05)
    assert tuned.effective_labels == pytest.approx(1000, rel=0.15)


def test_a_judge_that_says_nothing_is_not_trusted():
    rng = np.random.default_rng(2)
    labels, noise = rng.random(200), rng.random(1200)

    tuned, plain = (ppi_mean(labels, noise[:200], noise[200:], lam=lam) for lam in (None, 1.0))

    assert tuned.tuning < 0.3
    assert tuned.effective_labels == pytest.approx(200, rel=0.05)
    assert plain.effective_labels < 120


@pytest.mark.parametrize(("n", "noted"), [(49, True), (50, False)])
def test_few_labels_are_noted(n, noted):
    labels = np.arange(n) % 2

    assert ("below 50 the interval may be too narrow" in ppi_mean(labels, labels, [0, 1, 1]).note) is noted


def test_labels_that_do_not_vary_have_an_interval_only_with_bounds():
    without, with_bounds = (ppi_mean([1] * 9, [1] * 9, [1] * 30, bounds=bounds) for bounds in (None, UNIT))

    assert (without.interval, without.status, without.effective_labels) == (None, "degenerate", None)
    assert with_bounds.interval.low < 0.9
    assert with_bounds.status == "ok"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1, 0], [1, 0, 1], [1, 0]), {}, "2 labels and 3 predictions: every label needs its prediction"),
        (([1, math.nan], [1, 0], [1, 0]), {}, "1 of 2 labels"),
        (([1, 0], [1, 0], [1, math.inf]), {}, "1 of 2 unlabelled predictions"),
        (([1, 0], [1, 0], [1, 0]), {"lam": 1.5}, "not 1.5"),
        (([1, 0], [1, 0], [1, 0]), {"distribution": "cauchy"}, "distribution must be .t. or .normal., not .cauchy."),
        (
            ([1, 0], [1, 0], [1, 0]),
            {"bounds": UNIT, "distribution": "normal"},
            "bounds must be finite and need distribution=",
        ),
        (([1, 0], [1, 0], [1, 0]), {"bounds": (0, math.inf)}, "bounds must be finite and need distribution="),
        (([1, 2], [1, 0], [1, 0]), {"bounds": UNIT}, "1 of 2 labels lie outside"),
    ],
)
def test_wrong_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ppi_mean(*arguments, **options)


@pytest.mark.parametrize("arguments", [([1], [1], [1, 0]), ([1, 0], [1, 0], [1]), ([], [], [])])
def test_too_few_labels_or_judgements_are_refused(arguments):
    with pytest.raises(NotEnoughData, match=r"\d labels? and \d judgement"):
        ppi_mean(*arguments)


@st.composite
def two_arms(draw: st.DrawFn):
    n, labelled = draw(st.integers(4, 25)), draw(st.integers(2, 10))
    assume(labelled <= n - 2)
    column = st.lists(SCORES, min_size=n, max_size=n)
    gaps = [None] * (n - labelled)
    label = st.lists(SCORES, min_size=labelled, max_size=labelled)
    return draw(label) + gaps, draw(label) + gaps, draw(column), draw(column)


@given(two_arms(), st.booleans(), st.sampled_from([None, 1.0]))
def test_swapping_the_arms_flips_the_sign_and_keeps_the_p_value(data, bounded, lam):
    single, other, judged_one, judged_other = data
    bounds = UNIT if bounded else None
    result = ppi_difference(single, other, judged_one, judged_other, bounds=bounds, lam=lam)
    swapped = ppi_difference(other, single, judged_other, judged_one, bounds=bounds, lam=lam)

    assert swapped.estimate == pytest.approx(-result.estimate, abs=1e-12)
    assert swapped.p_value == pytest.approx(result.p_value)
    if result.interval is not None:
        assert swapped.interval.low == pytest.approx(-result.interval.high)


@given(two_arms())
def test_a_difference_with_lambda_nought_is_the_paired_t_of_the_labels(data):
    single, other = ([value for value in labels if value is not None] for labels in data[:2])
    result = ppi_difference(*data, lam=0.0)

    assert result.estimate == pytest.approx(np.mean(single) - np.mean(other), abs=1e-12)
    if result.interval is not None:
        plain = stats.ttest_rel(single, other)
        assert result.p_value == pytest.approx(plain.pvalue)
        assert result.interval.low == pytest.approx(plain.confidence_interval().low)


def test_a_label_in_one_arm_only_is_refused():
    with pytest.raises(ValueError, match="1 of 4 samples are labelled in one arm only"):
        ppi_difference([1, 0, None, None], [1, None, None, None], [1, 0, 1, 1], [1, 0, 0, 1])
    with pytest.raises(ValueError, match="3 and 4 labels of 4 samples"):
        ppi_difference([1, 0, None], [1, 1, None, None], [1, 0, 1, 1], [1, 0, 0, 1])


def test_position_bias_by_hand():
    #                       first  first  second same  same   tie moved to the first place
    result = position_bias([1, 1, 0, 1, 0, 1], [0, 0, 1, 1, 0, 0.5])

    assert (result.towards_first, result.towards_second, result.pairs) == (3, 1, 6)
    assert result.p_value == pytest.approx(10 / 16)
    assert result.first_share == 0.75
    assert result.consistency == pytest.approx(2 / 6)
    assert result.win_rate == pytest.approx((3 * 0.5 + 1 + 0 + 0.75) / 6)


@given(verdicts())
def test_p_value_and_interval_of_the_bias_agree(data):
    result = position_bias(*data)

    assert 0 < result.p_value <= 1
    assert 0 <= result.win_interval.low <= result.win_rate <= result.win_interval.high <= 1
    if abs(result.p_value - 0.05) > 1e-9:
        assert (result.p_value < 0.05) == (not result.first_interval.low <= 0.5 <= result.first_interval.high)


def test_a_judge_that_always_takes_the_first_is_found_out_and_decides_nothing():
    result = position_bias([1] * 20, [0] * 20)

    assert result.p_value == pytest.approx(2 / 2**20)
    assert (result.first_share, result.consistency, result.win_rate) == (1, 0, 0.5)
    assert result.win_interval.low < 0.5 < result.win_interval.high


def test_a_consistent_judge_has_no_share_for_the_first():
    result = position_bias([1, 0, 0.5], [1, 0, 0.5])

    assert (result.first_share, result.p_value, result.consistency) == (None, 1, 1)
    assert (result.first_interval.low, result.first_interval.high) == (0, 1)


def test_clusters_of_equal_pairs_widen_the_win_rate():
    rng = np.random.default_rng(3)
    wins = rng.integers(0, 2, 20).repeat(5)
    alone, clustered = position_bias(wins, wins), position_bias(wins, wins, clusters=np.arange(20).repeat(5))

    assert clustered.clusters == 20
    assert clustered.win_rate == alone.win_rate
    width = [single.win_interval.high - single.win_interval.low for single in (alone, clustered)]
    assert width[1] > 2 * width[0]


def test_verdicts_are_checked():
    with pytest.raises(ValueError, match="2 of 6 verdicts"):
        position_bias([1, 2, 0], [0.5, 0.3, 1])
    with pytest.raises(ValueError, match="2 candidate values, 1 baseline values"):
        position_bias([1, 0], [1])
    with pytest.raises(NotEnoughData, match="1 pair"):
        position_bias([1], [0])


def test_samples_repeated_in_their_clusters_add_nothing():
    """The clustered interval of three copies of each sample is that of the samples, and the plain one is too narrow."""
    labels, predictions, rest = [1, 0, 1, 1, 0, 1], [1, 0, 0, 1, 0, 1], [1, 1, 0, 0, 1, 0, 1, 1]
    copies = [np.repeat(column, 3) for column in (labels, predictions, rest)]
    clusters = np.repeat(np.arange(6), 3), np.repeat(np.arange(6, 14), 3)
    single = ppi_mean(labels, predictions, rest, lam=1.0, bounds=UNIT)
    clustered, plain = (ppi_mean(*copies, lam=1.0, bounds=UNIT, clusters=chosen) for chosen in (clusters, None))

    assert (clustered.interval.low, clustered.interval.high) == pytest.approx(
        (single.interval.low, single.interval.high)
    )
    assert plain.interval.high - plain.interval.low < 0.7 * (clustered.interval.high - clustered.interval.low)
    with pytest.raises(NotEnoughData, match="2 clusters with labels: expected at least 5"):
        ppi_mean(*copies, clusters=(np.repeat([0, 1], 9), clusters[1]))
    by_arm = [np.append(labels, [np.nan] * 8), np.append(1 - np.array(labels), [np.nan] * 8)]
    shared = [*range(6), *range(8)]
    paired = ppi_difference(*by_arm, [*predictions, *rest], np.zeros(14), bounds=UNIT, clusters=shared)
    assert "clustered" in paired.method
