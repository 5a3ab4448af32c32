"""Changes of a metric over many runs, true and apparent ones."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.analyse.run_statistics import RunScores, trend
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.records import MetricFacts

RIGHT = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
N = 100


def run_scores(right: int, *, lost: int = 0, dataset: str = "d") -> RunScores:
    """So many of a hundred samples right, the first ones, but that so many of these are lost."""
    values = np.repeat([1.0, 0.0], [right, N - right])
    values[:lost] = np.nan
    gone = np.isnan(values)
    scores = Scores(values, np.where(gone, 0.0, values), np.where(gone, 1.0, values), gone, np.zeros(N, dtype=bool))
    return RunScores(run=f"r{right}", started="", arm="v2", dataset=dataset, scores=scores, clusters=None)


def changes(*runs: RunScores) -> list[str]:
    return [entry.change for entry in trend(RIGHT, runs, alpha=0.05)]


def test_a_change_begins_a_stretch_with_the_first_run_that_is_proven_to_differ():
    assert changes(run_scores(50), run_scores(51), run_scores(80), run_scores(81), run_scores(50)) == [
        "",
        "",
        "proven",
        "",
        "proven",
    ]


def test_all_pairs_of_runs_share_alpha():
    """5 of 100 more right is p = 0.025, which proves something of two runs and nothing of four."""
    assert changes(run_scores(50), run_scores(55)) == ["", "proven"]
    assert changes(run_scores(50), run_scores(50), run_scores(50), run_scores(55)) == ["", "", "", ""]


def test_intervals_hold_together():
    alone, among = (trend(RIGHT, [run_scores(50)] * count, alpha=0.05)[0].estimate.interval for count in (1, 5))

    assert alone.level == 0.95
    assert among.level == pytest.approx(0.99)
    assert among.low < alone.low


def test_what_was_lost_can_only_make_a_change_uncertain():
    """Ten more are right, and of those that were right before some are lost."""
    assert changes(run_scores(50), run_scores(60)) == ["", "proven"]
    assert changes(run_scores(50), run_scores(60, lost=20)) == ["", ""]
    assert trend(RIGHT, [run_scores(60, lost=20)], alpha=0.05)[0].estimate.lost == 20


def test_other_samples_are_no_change_of_the_metric():
    assert changes(run_scores(50), run_scores(90, dataset="e"), run_scores(90, dataset="e")) == [
        "",
        "other samples",
        "",
    ]
