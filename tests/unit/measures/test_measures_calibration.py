"""Expected calibration error: bins, bounds over all signs, differences, and lost samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import stats
from pytest_crucible.measures import calibration
from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.metrics.confidence import calibration as reference
from pytest_crucible.records import Measure, MetricFacts

FACTS = (
    MetricFacts(name="confidence", kind="bounded", low=0.0, high=1.0),
    MetricFacts(name="accuracy", kind="binary", low=0.0, high=1.0),
)
MEASURE = Measure(statistic="ece", metric="confidence", further=("accuracy",))
answers = st.lists(
    st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.sampled_from([0.0, 1.0])), min_size=2, max_size=30
)


def observations(confidence, accuracy, clusters=None) -> Observations:
    """None is lost."""
    columns = [
        np.array([math.nan if single is None else single for single in values]) for values in (confidence, accuracy)
    ]
    return Observations(
        measure=MEASURE,
        facts=FACTS,
        columns=tuple(
            Column(single, np.nan_to_num(single, nan=0.0), np.nan_to_num(single, nan=1.0)) for single in columns
        ),
        lost=np.isnan(columns[0]) | np.isnan(columns[1]),
        clusters=None if clusters is None else np.array(clusters),
    )


def prepare(confidence, accuracy, end="observed", clusters=None) -> Prepared:
    return calibration.prepare(observations(confidence, accuracy, clusters), end)


def value(*arguments, **options) -> float:
    return calibration.bound(prepare(*arguments, **options), 0.05)[0].value


@pytest.mark.slow
@given(answers)
def test_the_value_is_that_of_the_calibration_table(pairs):
    confidence, accuracy = zip(*pairs, strict=True)

    assert value(confidence, accuracy) == pytest.approx(reference(confidence, accuracy).ece)


def test_a_value_by_hand():
    """0.9 twice, right once, is off by 0.4; 0.6 twice, right once, by 0.1: half of each."""
    assert value([0.9, 0.9, 0.6, 0.6], [1, 0, 1, 0]) == pytest.approx((0.4 + 0.1) / 2)


@given(answers, st.floats(0.001, 0.4))
def test_the_bounds_hold_the_value_between_them(pairs, alpha):
    reading, method = calibration.bound(prepare(*zip(*pairs, strict=True)), alpha)

    assert 0 <= reading.lower <= reading.value <= reading.upper <= 1
    assert method == "ece of 10 bins, all signs"


def test_the_upper_bound_is_that_of_the_signed_gaps():
    confidence, accuracy = [0.9, 0.9, 0.8, 0.7, 0.2, 0.3], [1, 0, 0, 1, 0, 1]
    gaps = np.array([0.1, -0.9, -0.8, 0.3, -0.2, 0.7]) * np.array([-1, -1, -1, 1, -1, 1])
    reading, _ = calibration.bound(prepare(confidence, accuracy), 0.05)

    shape = {"kind": "bounded", "bounds": (-1.0, 1.0)}
    assert reading.upper == stats.mean_bound(gaps, alpha=0.05, side="upper", **shape).value
    lower = stats.mean_bound(gaps, alpha=0.05 / 2**5, side="lower", **shape).value  # five bins hold samples
    assert reading.lower == max(0.0, lower)


def test_groups_widen_the_bounds():
    rng = np.random.default_rng(1)
    accuracy, clusters = np.repeat(rng.integers(0, 2, 20), 5), np.repeat(np.arange(20), 5)
    alone = calibration.bound(prepare([0.8] * 100, accuracy), 0.05)[0]
    grouped = calibration.bound(prepare([0.8] * 100, accuracy, clusters=clusters), 0.05)[0]

    assert grouped.value == alone.value
    assert grouped.upper > alone.upper


@pytest.mark.parametrize("confidence", [1.2, -0.1, 80.0])
def test_a_confidence_outside_0_to_1_has_no_error(confidence):
    problem = "a confidence or an accuracy lies outside 0 to 1"

    assert calibration.estimate(prepare([confidence, 0.5], [1, 0]), 0.95).method == problem


def test_metrics_that_are_declared_outside_0_to_1_are_refused():
    percent = MetricFacts(name="confidence", kind="bounded", low=0.0, high=100.0)

    assert calibration.check(MEASURE, (percent, FACTS[1])) == (
        "'confidence' lies between 0 and 100: declare bounds=(0, 1)"
    )
    assert calibration.check(MEASURE, FACTS) == ""
    assert calibration.check(MEASURE, (MetricFacts(name="confidence"), FACTS[1])) == ""


# -- lost samples -------------------------------------------------------------------------------------------------


@given(
    answers,
    st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.sampled_from([0.0, 1.0])), min_size=1, max_size=3),
)
def test_no_lost_sample_can_make_the_value_lie_outside_its_extremes(pairs, lost):
    confidence, accuracy = map(list, zip(*pairs, strict=True))
    holes = [None] * len(lost)
    low, high = (value([*confidence, *holes], [*accuracy, *holes], end=end) for end in ("low", "high"))
    filled = value([*confidence, *(single for single, _ in lost)], [*accuracy, *(single for _, single in lost)])

    assert low - 1e-12 <= filled <= high + 1e-12


# -- two arms -----------------------------------------------------------------------------------------------------


def arms(n=60, seed=1):
    rng = np.random.default_rng(seed)
    accuracy = rng.integers(0, 2, n).astype(float)
    return prepare(np.full(n, 0.95), accuracy), prepare(np.full(n, 0.55), accuracy)


def test_a_difference_is_the_mean_difference_of_the_signed_gaps():
    ours, theirs = arms()
    result = calibration.compare(ours, theirs, 0.05)

    assert result.value == pytest.approx(value_of(ours) - value_of(theirs))
    assert result.interval.low <= result.value <= result.interval.high
    assert result.lower >= result.interval.low
    assert (result.method, result.deviation) == ("ece of 10 bins, all signs", None)


def value_of(values: Prepared) -> float:
    return calibration.bound(values, 0.05)[0].value


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=2, max_size=40),
    st.floats(0.01, 0.4),
)
def test_interval_and_p_value_agree(rows, alpha):
    first, second, accuracy = zip(*rows, strict=True)
    result = calibration.compare(prepare(first, accuracy), prepare(second, accuracy), alpha)

    if abs(result.p_value - alpha) > 1e-9:
        assert (result.p_value < alpha) == (not result.interval.low <= 0 <= result.interval.high)


def test_equal_arms_differ_by_nothing():
    ours, _ = arms()
    result = calibration.compare(ours, ours, 0.05)

    assert (result.value, result.p_value) == (0.0, 1.0)
    assert result.interval.low < 0 < result.interval.high


def test_one_pair_has_a_difference_and_a_reason():
    result = calibration.compare(prepare([0.9], [1]), prepare([0.6], [1]), 0.05)

    assert (result.value, result.interval, result.p_value) == (pytest.approx(-0.3), None, None)
    assert result.note == "too few samples or clusters to compare"
