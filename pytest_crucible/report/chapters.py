"""One experiment of a report with its samples: their numbers as columns, and what was said, read when it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.numerals import with_interval
from pytest_crucible.records import Analysis, Exchange, MetricFacts, SampleColumns, Slice
from pytest_crucible.report.grids import Grid, Row, named


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
    slices: tuple[Slice, ...]
    read: Callable[[Sequence[int]], Sequence[Exchange]]
    """What was asked and said of the samples at some positions, in that order."""

    @property
    def name(self) -> str:
        return named(self.analysis.plan.nodeid)

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.analysis.plan.arms)


def slice_grid(chapter: Chapter) -> Grid:
    """Each group with the candidate's mean and, where there is a first baseline, the difference to it."""
    nodeid, compared = chapter.analysis.plan.nodeid, len(chapter.arms) > 1
    heads: tuple[str, ...] = ("group", f"{chapter.metric} of {chapter.arms[0]}", "n")
    if compared:
        heads = (*heads, f"{chapter.arms[0]} vs {chapter.arms[1]}", "pairs")
    rows = tuple(Row(experiment=nodeid, cells=_cells(one)[: len(heads)]) for one in chapter.slices)
    return Grid(heads=heads, rows=rows)


def _cells(one: Slice) -> tuple[str, ...]:
    """A group that too few answered has no difference."""
    mean = (one.group, with_interval(one.value, one.interval), f"{one.n:,}")
    shown = with_interval(one.difference, one.difference_interval, sign=True)
    return (*mean, shown, "-" if one.pairs is None else f"{one.pairs:,}")
