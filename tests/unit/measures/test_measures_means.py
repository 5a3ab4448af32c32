"""Differences of means."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.measures.ratios import compare_means
from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.records import Measure, MetricFacts

MEAN = STATISTICS["mean"]


def prepare(values: list[float], kind: str, high: float = 1.0) -> Prepared:
    column = np.array(values)
    facts = MetricFacts(name="m", kind=kind, low=0.0, high=high)
    observations = Observations(
        measure=Measure(metric="m"),
        facts=(facts,),
        columns=(Column(column, column, column),),
        lost=np.zeros(len(values), dtype=bool),
    )
    return MEAN.prepare(observations, "observed")


@pytest.mark.parametrize(("kind", "discordance"), [("binary", 3 / 8), ("bounded", None)])
def test_the_discordance_of_yes_or_no_is_the_share_of_samples_that_change(kind, discordance):
    candidate, baseline = [1.0, 1, 0, 1, 1, 0, 0, 1], [0.0, 1, 1, 1, 1, 0, 0, 0]
    difference = MEAN.difference(prepare(candidate, kind), prepare(baseline, kind), 0.05)

    assert difference.discordance == pytest.approx(discordance)


def test_a_ratio_of_means_that_is_not_bounded_at_all_lies_between_0_and_infinity():
    arms = [prepare(values, "positive", high=1e300) for values in ([1e-9, 2e-9], [2e-9, 1e-9])]
    difference = compare_means(arms[0], arms[1], 0.05)

    assert (difference.lower, difference.upper) == (-math.inf, math.inf)
