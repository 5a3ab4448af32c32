"""The looks of a run with --crucible-stop: an experiment ends at the look that finds all of its verdicts settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.stopping import settled_after

# A look costs about a millisecond for each thousand samples: one for each 2 % more samples finds the end soon enough.
GROWTH = 1.02


@dataclass(frozen=True)
class StopWhenSettled:
    """A rule of looks: all arms go on until every verdict is settled."""

    alpha: float
    """The error rate of each claim."""

    def next_look(self, looked: int, complete: int) -> int | None:
        return complete if complete >= max(looked * GROWTH, 1) and complete > looked else None

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return all arms or none. Raises UnsuitableMetric for one without bounds."""
        return live if settled_after(inputs, looked_at, self.alpha) is None else frozenset()
