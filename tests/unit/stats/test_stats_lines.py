"""The answers of the statistics can be printed: one line with the estimate, its interval and how much it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible import stats
from pytest_crucible.stats.number_format import number, with_interval

SCORES = np.array([0.1, 0.4, 0.35, 0.8, 0.7, 0.55, 0.2, 0.65])
OTHERS = np.array([0.3, 0.1, 0.6, 0.2, 0.5, 0.45, 0.15, 0.4])
CLUSTERS = list("aabbccddeeff")
RATINGS = [[1, 1, 2, 2, 1, 2], [1, 2, 2, 2, 1, 2]]

LINES = {
    "CorrectedMean": (stats.ppi_mean(SCORES, OTHERS, np.tile(OTHERS, 3)), "estimate", "interval", "labelled=8"),
    "Agreement": (stats.cohen_kappa(*RATINGS), "value", "interval", "units=6, raters=2"),
    "PositionBias": (stats.position_bias([1, 1, 0, 1], [0, 1, 0, 0]), "win_rate", "win_interval", "pairs=4"),
    "VarianceComponents": (stats.variance_components([[0, 1], [1, 1], [0, 0]]), "mean", None, "samples=3, repeats=6"),
    "BudgetSplit": (stats.split_budget(600, between=0.1, within=0.2), "se", None, "samples x "),
    "RepeatedSuccess": (stats.pass_at_k(4, [2, 3, 1], 2), "mean", "interval", "samples=3"),
    "ConfidenceSequence": (stats.betting_sequence(SCORES), None, None, "after 8 values"),
    "ClusterDesign": (
        stats.cluster_effect([1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0], CLUSTERS), "design_effect", None, "n=12 in 6 clusters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_record_is_one_line_with_its_estimate_interval_and_size(name):
    record, estimate, interval, size = LINES[name]
    line = str(record)

    assert type(record).__name__ == name
    assert "\n" not in line
    assert len(line) < 200
    assert all(part in line for part in size.split("|"))
    if estimate is not None:
        value = getattr(record, estimate)
        end = None if interval is None else getattr(record, interval)
        plain = number(value, end) if end is None else with_interval(value, end)
        assert plain in line or with_interval(value, end, sign=True) in line or number(value, sign=True) in line


def test_what_is_missing_is_said():
    alone = stats.pass_at_k(4, [2], 2)
    tied = stats.bootstrap([0.0] * 6 + [1.0] * 10, np.median)

    assert str(alone) == f"pass@2 0.833 [no interval], samples=1: {alone.note}"
    assert str(tied).endswith("BCa is not defined for so many ties: use method='percentile'")
    assert str(stats.cohen_kappa([1, 1], [1, 1])).startswith("cohen kappa unknown")


def test_the_representation_of_many_questions_stays_short():
    assert len(repr(stats.pass_at_k(4, [2] * 1000, 2))) < 300


def test_planned_sizes_are_one_line():
    assert str(stats.samples_for_t(0.5)) == "n=34, power 0.808"
    assert str(stats.samples_for_t(0.0)) == "no number of samples is enough"
