"""The samples on which two compared arms differ: by how much, and where their replies are. Plain data, without the replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import main_metric, score_table
from pytest_crucible.features.view.samples.select import subtract_scores
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.runs.compare import PairedExperiment

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Change = Literal["worse", "better", "lost"]
"""The candidate's score is worse or better than the baseline's, or one of them is missing."""
CHANGES: tuple[Change, ...] = get_args(Change)


@dataclass(frozen=True)
class ChangedScores:
    """The samples with one change of one metric, the largest first, and the scores of both arms: NaN for a missing one."""

    positions: Positions
    ours: Floats
    theirs: Floats


@dataclass(frozen=True)
class ComparedSide:
    """An arm of a stored experiment, and where it has the samples of the comparison."""

    key: int
    """The store's key of the experiment."""
    number: int
    """The number of the arm."""
    name: str
    """The name of the arm in the comparison."""
    positions: Positions | None
    """The position of each sample of the comparison, -1 where it has none; None: the same positions."""

    def position(self, sample: int) -> int | None:
        """Return its position of a sample of the comparison; None where it has none."""
        position = sample if self.positions is None else int(self.positions[sample])
        return None if position < 0 else position


@dataclass(frozen=True)
class ChangedSamples:
    """The samples of one experiment that two arms have answered."""

    nodeid: str
    dataset: str
    """The SHA-256 of the candidate's samples."""
    planned: int
    metric: str | None
    """The metric that is compared first; None without one."""
    signs: Mapping[str, float]
    """Metric -> 1 where higher is better, else -1."""
    changes: Mapping[str, Mapping[Change, ChangedScores]]
    """Metric -> change -> samples."""
    sides: tuple[ComparedSide, ComparedSide]


def find_changes(pair: PairedExperiment) -> ChangedSamples:
    """Return the samples on which the arms of a paired experiment differ."""
    plan, table = pair.inputs.plan, score_table(pair.inputs)
    scores = {name: (arms[0].values, arms[1].values) for name, arms in table.scores.items() if len(arms) > 1}
    signs = {name: 1.0 if table.facts[name].direction == "higher" else -1.0 for name in scores}
    return ChangedSamples(
        nodeid=plan.nodeid,
        dataset=plan.dataset_sha256,
        planned=plan.planned,
        metric=main_metric(plan, scores),
        signs=signs,
        changes={name: dict(_changes(*arms, signs[name])) for name, arms in scores.items()},
        sides=(_side(pair, 0), _side(pair, 1)),
    )


def _changes(ours: Floats, theirs: Floats, sign: float) -> Iterator[tuple[Change, ChangedScores]]:
    difference = sign * subtract_scores(ours, theirs)
    for change, size in (("worse", -difference), ("better", difference)):
        order = np.argsort(-size, kind="stable")
        places = order[size[order] > 0]
        yield change, ChangedScores(places, ours[places], theirs[places])  # type: ignore[misc]  # a literal of the tuple
    places = np.flatnonzero(np.isnan(ours) != np.isnan(theirs))
    yield "lost", ChangedScores(places, ours[places], theirs[places])


def _side(pair: PairedExperiment, arm: int) -> ComparedSide:
    plan, side = pair.inputs.plan, pair.details.arms[arm]
    positions = np.full(plan.planned, -1)
    positions[list(side.positions.values())] = list(side.positions)
    is_same = bool((positions == np.arange(plan.planned)).all())
    return ComparedSide(side.stored.key, side.number, plan.arms[arm].name, None if is_same else positions)
