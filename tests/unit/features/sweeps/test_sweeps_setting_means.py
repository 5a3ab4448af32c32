"""Differences between the settings of a sweep's members."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pytest_crucible.features.sweeps.sweep_members import compare_settings, training_label
from pytest_crucible.records import MetricFacts

FACTS = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
SETTINGS = [
    {"hyperparameters.steps": steps, "lora.rank": rank, "seed": seed}
    for steps, rank, seed in itertools.product((9, 90), (8, 32), (1, 2, 3))
]
RNG = np.random.default_rng(1)
VALUES = (RNG.random((200, 12)) < np.repeat([0.4, 0.45, 0.7, 0.75], 3)).astype(float)


def test_each_key_but_the_seed_is_a_setting():
    result = compare_settings(FACTS, VALUES, SETTINGS, alpha=0.05)

    assert [(difference.setting, difference.level, difference.other) for difference in result.means.differences] == [
        ("hyperparameters.steps", "90", "9"),
        ("lora.rank", "32", "8"),
    ]
    assert result.means.differences[0].difference == pytest.approx(VALUES[:, 6:].mean() - VALUES[:, :6].mean())


def test_a_difference_is_positive_where_it_is_better():
    lower = MetricFacts(name="wrong", kind="binary", direction="lower", low=0.0, high=1.0)
    up, down = (compare_settings(facts, VALUES, SETTINGS, alpha=0.05).means for facts in (FACTS, lower))

    assert up.means == down.means
    assert down.differences[0].difference == -up.differences[0].difference
    assert down.differences[0].interval.low == -up.differences[0].interval.high


def test_dropped_members_and_lost_samples_are_left_out():
    values = VALUES.copy()
    values[:10, 0] = np.nan
    values[50:, 4] = np.nan
    result = compare_settings(FACTS, values, SETTINGS, alpha=0.05, dropped=[k == 4 for k in range(12)])

    assert result.dropped
    assert (result.means.n, result.means.incomplete) == (190, 1)


def test_one_seed_makes_no_claim():
    result = compare_settings(FACTS, VALUES[:, ::3], SETTINGS[::3], alpha=0.05)

    assert result.means is None
    assert "one training of each setting" in result.reason


@pytest.mark.parametrize("key", ["at", "parameters.top_p", "variables.prompt"])
def test_members_that_are_sampled_differently_share_a_training(key):
    settings = [{key: value, "seed": seed} for value in (["a"], ["b"]) for seed in (1, 2, 3)]
    result = compare_settings(FACTS, VALUES[:, :6], settings, alpha=0.05)

    assert training_label(settings[0]) == training_label(settings[3])
    assert result.means.differences[0].trainings == 3
