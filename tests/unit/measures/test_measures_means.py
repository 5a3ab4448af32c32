"""Differences of means."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.measures.row import Column, Observations, Prepared
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.records import Measure, MetricFacts

MEAN = STATISTICS["mean"]


def prepare(values: list[float], kind: str) -> Prepared:
    column = np.array(values)
    facts = MetricFacts(name="m", kind=kind, low=0.0, high=1.0)
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
