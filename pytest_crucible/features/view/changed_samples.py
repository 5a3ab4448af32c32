"""The samples on which two compared arms differ: by how much, and where their replies are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import main_metric, score_table
from pytest_crucible.records import Sample
from pytest_crucible.runs.compare import PairedExperiment

Change = Literal["worse", "better", "lost"]
"""The candidate's score is worse or better than the baseline's, or one of them is missing."""
CHANGES: tuple[Change, ...] = get_args(Change)


@dataclass(frozen=True, slots=True)
class ChangedSample:
    """One sample with the scores of both arms, NaN for a missing one."""

    position: int
    sample: str
    ours: float
    theirs: float
    difference: float
    """Candidate minus baseline, signed so that positive is better."""


@dataclass(frozen=True)
class ChangedSamples:
    """The samples of one experiment that two arms have answered."""

    pair: PairedExperiment

    @cached_property
    def scores(self) -> Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
        """Metric -> the scores of candidate and baseline."""
        table = score_table(self.pair.inputs)
        return {name: (arms[0].values, arms[1].values) for name, arms in table.scores.items() if len(arms) > 1}

    @cached_property
    def signs(self) -> Mapping[str, float]:
        facts = score_table(self.pair.inputs).facts
        return {name: 1.0 if facts[name].direction == "higher" else -1.0 for name in self.scores}

    @property
    def nodeid(self) -> str:
        return self.pair.inputs.plan.nodeid

    @property
    def arms(self) -> tuple[str, str]:
        candidate, baseline = self.pair.inputs.plan.arms
        return candidate.name, baseline.name

    @cached_property
    def metric(self) -> str | None:
        """The metric that is compared first; None without one."""
        return main_metric(self.pair.inputs.plan, self.scores)

    def positions(self, metric: str, change: Change) -> npt.NDArray[np.int64]:
        """Return the samples with a change, the largest first."""
        ours, theirs = self.scores[metric]
        difference = self.signs[metric] * (ours - theirs)
        if change == "lost":
            return np.flatnonzero(np.isnan(ours) != np.isnan(theirs))
        size = -difference if change == "worse" else difference
        order = np.argsort(-size, kind="stable")
        return order[size[order] > 0]

    def samples(self, metric: str, positions: Sequence[int]) -> Iterator[ChangedSample]:
        """Yield the samples at some positions."""
        ours, theirs = self.scores[metric]
        for position in positions:
            difference = self.signs[metric] * (ours[position] - theirs[position])
            name = self.pair.inputs.sample_ids[position]
            yield ChangedSample(position, name, float(ours[position]), float(theirs[position]), float(difference))

    def own_positions(self, position: int) -> tuple[int, int | None]:
        """Return where each run has a sample: its datasets may differ in their order. None where the baseline lacks it."""
        [theirs] = [k for k, place in self.pair.details.arms[1].positions.items() if place == position] or [None]
        return position, theirs

    def replies(self, position: int) -> tuple[Sample | None, tuple[str | None, str | None]]:
        """Return a sample, and the first reply of each arm to it; None for an arm without one."""
        details: Any = self.pair.details
        ours, theirs = (details.replies(arm, [position]).get(position) for arm in (0, 1))
        return details.samples([position]).get(position), (ours, theirs)
