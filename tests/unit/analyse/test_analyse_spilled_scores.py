"""Scores come back from their files as they were, in their order, with shared arrays once."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.spilled_scores import SpilledScores
from pytest_crucible.analyse.statistics import SampleAttributes

VALUES = st.lists(
    st.floats(allow_nan=True) | st.integers(0, 300).map(float) | st.just(-0.0), min_size=1, max_size=150
).map(np.array)


def table(values: np.ndarray) -> ScoreTable:
    flags = np.isnan(values)
    scores = Scores(values, values, values, flags, ~flags)
    return ScoreTable({}, {"a": (scores,), "b": (scores, scores)}, SampleAttributes(clusters=np.arange(values.size)))


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_every_pass_reads_the_bits_that_were_written(batches):
    with closing(SpilledScores()) as spill:
        for values in batches:
            spill.append(table(values))
        for _ in range(2):
            for values, stored in zip(batches, spill.read(["b"]), strict=True):
                first, second = stored.scores["b"]
                assert first.values.tobytes() == values.tobytes()
                assert first.low is first.values
                assert second.lost.tolist() == np.isnan(values).tolist()
                assert stored.attributes.clusters.tolist() == list(range(values.size))
                assert set(stored.scores) == {"b"}
