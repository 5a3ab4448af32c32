"""Calibration of confidences and the Brier score."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import NotApplicable, Reply, Sample, SpecError, metric
from pytest_crucible.metrics import exact_match, sentence_bleu
from pytest_crucible.metrics.confidence import brier, calibration, confidence_of
from pytest_crucible.stats.interval import NotEnoughData


def test_calibration_of_a_worked_example():
    """Bins (0.5, 0.6] and (0.8, 0.9]: 3/4 * |1/3 - 0.6| + 1/4 * |1 - 0.9| = 0.225."""
    result = calibration([0.6, 0.6, 0.6, 0.9], [1, 0, 0, 1])

    assert result.ece == pytest.approx(0.225)
    assert result.brier == pytest.approx((0.16 + 0.36 + 0.36 + 0.01) / 4)
    assert result.auroc == pytest.approx((2 + 2 * 0.5 + 0) / 4 + 0)
    assert [(row.n, row.accuracy) for row in result.table if row.n] == [(3, pytest.approx(1 / 3)), (1, 1.0)]
    assert result.table[0].confidence is None


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_the_share_of_ordered_pairs(pairs):
    confidences, right = zip(*pairs, strict=True)
    ones = [high for high, good in pairs if good]
    zeros = [high for high, good in pairs if not good]
    order = [(high > low) + 0.5 * (high == low) for high in ones for low in zeros]

    result = calibration(confidences, right, bins=7)

    assert result.auroc == (pytest.approx(sum(order) / len(order)) if order else None)
    assert sum(row.n for row in result.table) == len(pairs)
    assert result.ece >= abs(result.accuracy - result.confidence) - 1e-12


def test_intervals_contain_the_estimate_and_are_reproducible():
    generator = np.random.default_rng(1)
    confidences = generator.uniform(0, 1, 400)
    right = (generator.uniform(0, 1, 400) < confidences).astype(int)

    result, again = calibration(confidences, right), calibration(confidences, right)

    assert result == again
    assert result.brier_interval.low < 1 / 6 < result.brier_interval.high
    assert result.auroc_interval.low < 5 / 6 < result.auroc_interval.high


def test_groups_widen_the_interval():
    confidences, right = [0.9, 0.6, 0.3, 0.8] * 10, [1, 0, 0, 1] * 5 + [0, 0, 1, 1] * 5
    alone = calibration(confidences, right).brier_interval
    grouped = calibration(confidences, right, groups=[k // 10 for k in range(40)]).brier_interval

    assert alone.method == grouped.method == "bootstrap-basic"
    assert alone != grouped


def test_undefined_values_are_none():
    result = calibration([1.0, 1.0, 1.0], [1, 1, 1])

    assert (result.ece, result.ece_interval, result.auroc, result.auroc_interval) == (0.0, None, None, None)


@pytest.mark.parametrize(
    ("confidences", "right", "settings"),
    [
        ([0.5, 1.5], [0, 1], {}),
        ([0.5, float("nan")], [0, 1], {}),
        ([0.5, 0.5], [0, 2], {}),
        ([0.5], [0, 1], {}),
        ([0.5, 0.5], [0, 1], {"bins": 0}),
        ([0.5, 0.5], [0, 1], {"groups": ["a"]}),
    ],
)
def test_invalid_arguments_are_errors(confidences, right, settings):
    with pytest.raises(ValueError, match=r"wanted|confidence|outcome|bins|groups"):
        calibration(confidences, right, **settings)


def test_too_few_replies_are_an_error():
    with pytest.raises(NotEnoughData):
        calibration([0.5], [1])
    with pytest.raises(NotEnoughData):
        calibration([0.5, 0.5], [1, 0], groups=["a", "a"])


def test_confidence_is_computed_from_logprobs():
    assert confidence_of(Reply(text="a", logprobs=(-1.0, -3.0))) == pytest.approx(np.exp(-2))
    assert confidence_of(Reply(text="a")) is confidence_of(Reply(text="", logprobs=())) is None


@pytest.mark.parametrize(
    ("logprobs", "confidence"),
    [
        ((float("nan"), -1.0), None),
        ((float("-inf"),), 0.0),
        ((float("-inf"), float("inf")), None),
        ((1e-7,), 1.0),
        ((1e4,), 1.0),
    ],
)
def test_confidence_is_at_most_1_and_never_nan(logprobs, confidence):
    assert confidence_of(Reply(text="a", logprobs=logprobs)) == confidence


answers = st.lists(st.tuples(st.floats(0.01, 1), st.booleans()), min_size=2, max_size=20)


def reply(confidence: float | None, right: bool = True) -> Reply:
    return Reply(text="4" if right else "5", logprobs=None if confidence is None else (math.log(confidence),))


SAMPLE = Sample(id="1", input="2 + 2", expected="4")


@pytest.mark.slow
@given(answers)
def test_the_mean_of_brier_is_the_brier_score(given_answers):
    single = [brier(exact_match)(reply(*answer), SAMPLE) for answer in given_answers]
    whole = calibration([answer for answer, _ in given_answers], [right for _, right in given_answers])

    assert sum(single) / len(single) == pytest.approx(whole.brier, abs=1e-12)


def test_brier_does_not_apply_without_logprobs():
    assert "no logprobs" in brier(exact_match)(reply(None), SAMPLE).reason


def test_brier_does_not_apply_where_its_metric_does_not():
    nothing = Sample(id="1", input="2 + 2")

    @metric(kind="binary")
    def silent(reply, sample):
        return None

    assert brier(exact_match)(reply(0.5), nothing) == exact_match(reply(0.5), nothing)
    assert brier(silent)(reply(0.5), SAMPLE) == NotApplicable("silent does not apply")


def test_brier_of_a_metric_that_is_not_binary_is_an_error():
    with pytest.raises(
        SpecError,
        match=r"brier.sentence_bleu. needs a binary metric: declare it with kind='binary', or give another one",
    ):
        brier(sentence_bleu)


def test_the_version_of_brier_names_its_metric():
    assert brier(exact_match).facts.version == f"1:exact_match:{exact_match.facts.version}"
    assert (brier(exact_match).facts.direction, brier(exact_match).facts.high) == ("lower", 1)
