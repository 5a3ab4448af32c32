"""A warning where neighbouring samples resemble each other, and none for chance or for declared groups."""

from __future__ import annotations

import numpy as np
import pytest
from test_analyse_comparisons import compare

from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats.checks import is_noteworthy, serial_correlation

SCORE = MetricFacts(name="m", kind="bounded", low=-20.0, high=20.0)
SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")


def autoregression(n, coefficient, seed=0):
    rng = np.random.default_rng(seed)
    values = np.zeros(n + 50)
    for place in range(1, n + 50):
        values[place] = coefficient * values[place - 1] + rng.normal()
    return values[50:]


def test_correlated_order_has_a_warning_with_the_effective_number_of_samples():
    values = autoregression(300, 0.5)
    comparison = compare(values, np.zeros(300), SCORE)

    assert "samples that follow each other in the dataset resemble each other (correlation 0." in comparison.note
    assert "300 count like about" in comparison.note
    assert serial_correlation(values).effective_n == pytest.approx(100, rel=0.35)


def test_groups_and_shuffled_samples_have_none():
    values = autoregression(300, 0.5)
    shuffled = np.random.default_rng(1).permutation(values)

    assert "follow each other" not in compare(values, np.zeros(300), SCORE, clusters=np.arange(300) // 10).note
    assert compare(shuffled, np.zeros(300), SCORE).note == ""


def test_amounts_are_correlated_on_the_scale_on_which_they_are_compared():
    ratios = np.exp(autoregression(300, 0.7))

    assert "m: samples that follow" in compare(ratios, np.ones(300), SECONDS).note
    assert "mean(m): samples that follow" in compare(ratios, np.ones(300), SECONDS, parse_contrast("mean(m)")).note


def test_the_correlation_is_that_of_a_closed_form():
    """1, 2, ..., 20: sum of d_i d_(i+1) over sum of d_i^2, with d_i = i - 10.5."""
    distances = np.arange(1, 21) - 10.5
    expected = float((distances[1:] * distances[:-1]).sum() / (distances**2).sum())

    assert serial_correlation(np.arange(1.0, 21.0)).correlation == pytest.approx(expected)
    assert serial_correlation(np.arange(19.0)) is None
    assert serial_correlation(np.ones(50)) is None


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_two_neighbours_that_differ_are_chance(share):
    """Two of 2 in 100 samples stand side by side in 2 % of all orders; the normal tail has 1e-6."""
    rng, n = np.random.default_rng(2), 100
    alarms = sum(
        is_noteworthy(serial)
        for serial in (
            serial_correlation(rng.permutation(np.arange(n) < share * n).astype(float)) for _ in range(1_000)
        )
    )

    assert alarms <= 6
