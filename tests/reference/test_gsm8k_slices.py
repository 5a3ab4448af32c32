"""Slices of GSM8K's 1,319 test questions in which one model is better, and two models without any.

CRUCIBLE_DATA names a directory with `paired/gsm8k_6models_binary.csv` and `gsm8k/test.jsonl`; without it nothing is tested.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from pytest_crucible.features.slices.candidates import candidate_slices, find_features
from pytest_crucible.stats.slices.search import search_slices

DATA = os.environ.get("CRUCIBLE_DATA")
pytestmark = [
    pytest.mark.skipif(not DATA, reason="CRUCIBLE_DATA does not name a directory with the outcomes"),
    pytest.mark.slow,
]


def search(candidate, baseline):
    """Return the slices with an adjusted p of at most .05, and the number of those searched.

    `long` is a feature of the user's own: solutions with five calculations or more.
    """
    folder = Path(DATA)
    questions = [
        json.loads(line) for line in (folder / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    with open(folder / "paired" / "gsm8k_6models_binary.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    solutions = [question["answer"] for question in questions]
    is_long = [solution.count("<<") >= 5 for solution in solutions]
    inputs = [question["question"] for question in questions]
    features = find_features(inputs, solutions, [{}] * len(rows), {"long": is_long})
    candidates = candidate_slices(features)
    differences = np.array([float(row[candidate]) - float(row[baseline]) for row in rows])
    result = search_slices(differences, candidates.members)
    return {candidates.names[each.column]: each for each in result.slices if each.p_adjusted <= 0.05}, len(
        candidates.names
    )


def test_long_solutions_are_where_the_better_model_wins():
    proven, _ = search("tora-70b", "175b_verification")
    longest = proven["long = true"]

    assert (longest.n, round(longest.inside, 3), round(longest.outside, 3)) == (225, 0.453, 0.245)
    assert longest.p_adjusted < 0.001


def test_a_larger_model_of_the_same_kind_is_better_alike_everywhere():
    proven, searched = search("175b_verification", "6b_verification")

    assert proven == {}
    assert searched > 20
