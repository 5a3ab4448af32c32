"""Rates of decisions by slice, AIF360's signs, and stated probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats.classifiers import Decisions, difference_from, reliability, slice_rates, theil_index


def decisions(true_positive, false_negative, false_positive, true_negative):
    counts = true_positive, false_negative, false_positive, true_negative
    return decide(np.repeat([1.0, 0, 1, 0], counts), np.repeat([1.0, 1, 0, 0], counts))


def decide(selected, outcome):
    """Return the metrics of decisions that could all be read; a share is the mean of several repeats."""
    return Decisions(
        selected=selected,
        true_positive=np.where(outcome == 1, selected, np.nan),
        false_positive=np.where(outcome == 0, selected, np.nan),
        correct=1 - abs(selected - outcome),
    )


# UCI Adult, v1 by sex.
WOMEN, MEN = decisions(610, 569, 1723, 7869), decisions(3299, 3363, 2435, 12693)


def test_rates_of_adult():
    rates = slice_rates("Female", WOMEN).rates

    assert rates["selected"] == pytest.approx(2333 / 10771)
    assert rates["true_positive"] == pytest.approx(610 / 1179)
    assert rates["right_if_selected"] == pytest.approx(610 / 2333)
    assert rates["base_rate"] == pytest.approx(1179 / 10771)


def test_differences_are_signed_from_the_reference():
    """AIF360: unprivileged minus privileged."""
    men, women = slice_rates("Male", MEN), slice_rates("Female", WOMEN)

    result = difference_from(men, women)

    assert result.demographic_parity == pytest.approx(-0.046548, abs=1e-6)
    assert result.disparate_impact == pytest.approx(0.823111, abs=1e-6)
    assert result.equal_opportunity == pytest.approx(0.022191, abs=1e-6)
    odds = (0.022191 + 1723 / 9592 - 2435 / 15128) / 2
    assert result.average_odds == pytest.approx(odds, abs=1e-6)
    assert result.predictive_parity == pytest.approx(-0.313874, abs=1e-6)


def test_a_rate_without_a_denominator_is_unknown():
    rates = slice_rates("a", decide(np.zeros(3), np.ones(3))).rates

    assert rates["false_positive"] is None
    assert rates["right_if_selected"] is None
    assert (
        difference_from(slice_rates("b", MEN), slice_rates("a", decide(np.zeros(3), np.ones(3)))).average_odds is None
    )


def test_theils_index_of_benefits():
    """b = decision - outcome + 1: 1, 0, 2 and 1; their mean is 1."""
    selected, outcome = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])

    assert theil_index(decide(selected, outcome)) == pytest.approx(2 * np.log(2) / 4)
    assert theil_index(decide(np.array([np.nan]), np.array([1.0]))) is None


def test_repeats_have_the_numbers_of_their_single_decisions():
    once, outcome = np.array([[1.0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]]), np.array([1.0, 1, 0])

    averaged = decide(once.mean(axis=1), outcome)
    single = decide(once.ravel(), outcome.repeat(4))

    assert slice_rates("a", averaged).rates == pytest.approx(slice_rates("a", single).rates)
    assert theil_index(averaged) == pytest.approx(theil_index(single))


def test_a_decision_that_cannot_be_read_is_wrong_and_not_favourable():
    unreadable = Decisions(
        selected=np.zeros(2),
        true_positive=np.array([0.0, np.nan]),
        false_positive=np.array([np.nan, 0.0]),
        correct=np.zeros(2),
    )

    assert slice_rates("a", unreadable).rates["correct"] == 0.0


def test_the_calibration_error_of_honest_probabilities_has_no_bias():
    rng = np.random.default_rng(0)
    errors, plain = [], []
    for _ in range(200):
        stated = rng.random(100)
        result = reliability(stated, (rng.random(100) < stated).astype(float))
        errors.append(result.ece_debiased)
        plain.append(result.ece)

    assert np.mean(errors) < 0.7 * np.mean(plain)


def test_the_area_counts_ties_half():
    result = reliability(np.array([0.2, 0.5, 0.5, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]))

    assert result.auroc == pytest.approx(3.5 / 4)
    assert reliability(np.array([0.2]), np.array([0.0])).auroc is None
    assert reliability(np.array([]), np.array([])).ece is None
