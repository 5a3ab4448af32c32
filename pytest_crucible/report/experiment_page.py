"""One experiment of a report with its samples: their numbers as columns, and conversations that are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Analysis, Exchange, MetricFacts, SampleColumns, experiment_name
from pytest_crucible.report.printable import printable_cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """An experiment, sample by sample. Columns are in the order of its dataset."""

    analysis: Analysis
    metric: str | None
    """What the experiment is mostly about: compared, else targeted, else first."""
    judged: tuple[str, ...]
    """What is compared or targeted, that metric first."""
    columns: SampleColumns
    facts: Mapping[str, MetricFacts]
    """What is known of each metric, its kind resolved."""
    clusters: npt.NDArray[np.int64] | None
    """A number for the group of each sample, where groups are clusters."""
    read: Callable[[Sequence[int]], Sequence[Exchange]]
    """Conversations about the samples at these positions, in the same order."""

    @property
    def name(self) -> str:
        return experiment_name(self.analysis.plan.nodeid)

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(printable_cell(arm.name) for arm in self.analysis.plan.arms)
