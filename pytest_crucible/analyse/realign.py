"""One arm's answers at other positions: those of another dataset, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_crucible.records import ArmOutcomes, ScoreColumns

Item = TypeVar("Item")


def realign(answers: ArmOutcomes, places: Mapping[int, int], *, epochs: int) -> ArmOutcomes:
    """Return the answers with position k moved to `places[k]`, without positions that have no place and later repeats."""
    indices = _kept_indices(answers.positions, answers.epochs, places, epochs)
    return replace(
        answers,
        positions=[places[position] for position in _at(answers.positions, indices)],
        epochs=_at(answers.epochs, indices),
        failures=_at(answers.failures, indices),
        skipped=_at(answers.skipped, indices),
        scores={name: _column(column, places, epochs) for name, column in answers.scores.items()},
        lost=[
            replace(loss, unit=loss.unit._replace(position=places[loss.unit.position]))
            for loss in answers.lost
            if loss.unit.position in places and loss.unit.repeat < epochs
        ],
    )


def _column(column: ScoreColumns, places: Mapping[int, int], epochs: int) -> ScoreColumns:
    indices = _kept_indices(column.positions, column.epochs, places, epochs)
    return ScoreColumns(
        positions=[places[position] for position in _at(column.positions, indices)],
        epochs=_at(column.epochs, indices),
        values=_at(column.values, indices),
        is_bool=_at(column.is_bool, indices),
    )


def _kept_indices(
    positions: Sequence[int], of_epochs: Sequence[int], places: Mapping[int, int], epochs: int
) -> list[int]:
    units = enumerate(zip(positions, of_epochs, strict=True))
    return [k for k, (position, epoch) in units if position in places and epoch < epochs]


def _at(column: Sequence[Item], indices: Sequence[int]) -> list[Item]:
    return [column[k] for k in indices]
