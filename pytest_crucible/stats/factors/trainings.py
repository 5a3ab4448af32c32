"""The part of a weighted sum's variance that comes from the trainings, which represent cells of a grid."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from pytest_crucible.stats.arrays import Array, Labels
from pytest_crucible.stats.factors.levels import level_source
from pytest_crucible.stats.factors.sources import Source
from pytest_crucible.stats.interval import NotEnoughData


def trainings_source(
    weighted: Array, trainings: Sequence[Hashable], cells: Sequence[Hashable], clusters: Labels | None = None
) -> Source:
    """Return the source of variation of the sum of the columns of samples x members, by their trainings.

    Columns are scores times weights, each with the label of its training and of its cell. Trainings are independent; those
    that stand for the same cells are a sample of such trainings, and their sum over S of them varies by S s^2. Cells may
    vary differently: the degrees of freedom are Satterthwaite's (1946, Biometrics Bulletin 2:110). Raises NotEnoughData where
    a training is the only one for its cells.

    >>> source = trainings_source(np.array([[0.2, 0.3, -0.1, -0.2]] * 5), [1, 2, 3, 4], ["a", "a", "b", "b"])
    >>> round(source.variance, 6), source.dof
    (0.02, 2.0)
    """
    members: dict[Hashable, list[int]] = {}
    for member, training in enumerate(trainings):
        members.setdefault(training, []).append(member)
    alike: dict[frozenset[Hashable], list[Array]] = {}
    for of_training in members.values():
        alike.setdefault(frozenset(cells[member] for member in of_training), []).append(
            weighted[:, of_training].sum(axis=1)
        )
    if any(len(columns) < 2 for columns in alike.values()):
        raise NotEnoughData("one training of some settings: a claim about a setting needs several of each")
    parts = [(len(columns), level_source(np.stack(columns, axis=1), "", clusters)) for columns in alike.values()]
    variances = np.array([count * count * part.variance for count, part in parts])
    total = float(variances.sum())
    squares = float((variances**2 / [part.dof for _, part in parts]).sum())
    return Source(
        name="trainings",
        levels=len(members),
        dof=total * total / squares if squares else float(sum(part.dof for _, part in parts)),
        variance=total,
        floor=float(sum(count * count * part.floor for count, part in parts)),
    )
