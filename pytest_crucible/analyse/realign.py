"""Moves one arm's replies to the positions that the same samples have in another dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_crucible.records import ArmOutcomes, ScoreColumns

Item = TypeVar("Item")


def realign(answers: ArmOutcomes, places: Mapping[int, int], *, repeats: int) -> ArmOutcomes:
    """Return the answers with position k moved to `places[k]`, without positions that have no place and later repeats."""
    indices = _kept_indices(answers.positions, answers.repeats, places, repeats)
    return replace(
        answers,
        positions=[places[position] for position in _at(answers.positions, indices)],
        repeats=_at(answers.repeats, indices),
        failures=_at(answers.failures, indices),
        skipped=_at(answers.skipped, indices),
        scores={name: _column(column, places, repeats) for name, column in answers.scores.items()},
        lost=[
            replace(loss, unit=loss.unit._replace(position=places[loss.unit.position]))
            for loss in answers.lost
            if loss.unit.position in places and loss.unit.repeat < repeats
        ],
    )


def _column(column: ScoreColumns, places: Mapping[int, int], repeats: int) -> ScoreColumns:
    indices = _kept_indices(column.positions, column.repeats, places, repeats)
    return ScoreColumns(
        positions=[places[position] for position in _at(column.positions, indices)],
        repeats=_at(column.repeats, indices),
        values=_at(column.values, indices),
        is_bool=_at(column.is_bool, indices),
    )


def _kept_indices(
    positions: Sequence[int], of_repeats: Sequence[int], places: Mapping[int, int], repeats: int
) -> list[int]:
    units = enumerate(zip(positions, of_repeats, strict=True))
    # The other run may have had more repeats; the ones that this run lacks have nothing to pair with.
    return [k for k, (position, repeat) in units if position in places and repeat < repeats]


def _at(column: Sequence[Item], indices: Sequence[int]) -> list[Item]:
    return [column[k] for k in indices]
