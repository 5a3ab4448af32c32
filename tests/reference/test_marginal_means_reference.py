"""Marginal means of settings against statsmodels (`marginal_means_reference.py`), where samples add no noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_crucible.stats import marginal_means
from pytest_crucible.stats.factors.marginal_means import trainings_source

REFERENCE = json.loads(Path(__file__).with_name("marginal_means_reference.json").read_text(encoding="utf-8"))
SAMPLES = 3
"""Rows that are all the same: only the trainings vary."""


def repeat_scores(scores) -> np.ndarray:
    return np.tile(scores, (SAMPLES, 1))


@pytest.mark.parametrize("name", ["balanced", "unequal"])
def test_differences_and_errors_are_those_of_cell_means_with_their_own_variances(name):
    case = REFERENCE[name]
    points = [{"steps": steps, "rank": rank, "seed": k} for k, (steps, rank) in enumerate(case["cells"])]
    result = marginal_means(repeat_scores(case["scores"]), points, trainings=range(len(points)))
    pairs = {
        f"{difference.level} - {difference.other}": difference
        for difference in result.differences
        if difference.setting == "steps"
    }
    scores = np.array(case["scores"])

    for label, (difference, error) in case["contrasts"].items():
        pair = pairs[label]
        assert pair.difference == pytest.approx(difference)
        weights = np.zeros(len(points))
        for sign, level in ((1, pair.level), (-1, pair.other)):
            for rank in (8, 32):
                cell = [k for k, cell in enumerate(case["cells"]) if cell == [level, rank]]
                weights[cell] = sign / 2 / len(cell)
        used = np.flatnonzero(weights)
        source = trainings_source(
            repeat_scores(scores * weights)[:, used], used.tolist(), [tuple(case["cells"][k]) for k in used]
        )
        assert source.variance**0.5 == pytest.approx(error)


@pytest.mark.parametrize("case", REFERENCE["two levels"])
def test_two_levels_have_welchs_interval_and_p_value(case):
    scores = [*case["low"], *case["high"]]
    points = [{"steps": steps, "seed": k} for steps, part in ((9, "low"), (90, "high")) for k in range(len(case[part]))]
    [pair] = marginal_means(repeat_scores(scores), points).differences

    assert [pair.interval.low, pair.interval.high] == pytest.approx(case["interval"])
    assert pair.p_value == pytest.approx(case["p_value"])
