"""One arm's answers at other positions: those of another dataset, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_crucible.records import Answers, ScoreColumns

Item = TypeVar("Item")


def rearranged(answers: Answers, places: Mapping[int, int], *, epochs: int) -> Answers:
    """What was at position k is at `places[k]`; what has no place, or is of a repeat from `epochs` on, is left out."""
    kept = _kept(answers.positions, answers.epochs, places, epochs)
    return replace(
        answers,
        positions=[places[one] for one in _at(answers.positions, kept)],
        epochs=_at(answers.epochs, kept),
        failures=_at(answers.failures, kept),
        skipped=_at(answers.skipped, kept),
        scores={name: _column(column, places, epochs) for name, column in answers.scores.items()},
        lost=[
            replace(one, position=places[one.position])
            for one in answers.lost
            if one.position in places and one.epoch < epochs
        ],
    )


def _column(column: ScoreColumns, places: Mapping[int, int], epochs: int) -> ScoreColumns:
    kept = _kept(column.positions, column.epochs, places, epochs)
    return ScoreColumns(
        positions=[places[one] for one in _at(column.positions, kept)],
        epochs=_at(column.epochs, kept),
        values=_at(column.values, kept),
        is_bool=_at(column.is_bool, kept),
    )


def _kept(positions: Sequence[int], of_epochs: Sequence[int], places: Mapping[int, int], epochs: int) -> list[int]:
    units = enumerate(zip(positions, of_epochs, strict=True))
    return [k for k, (position, epoch) in units if position in places and epoch < epochs]


def _at(column: Sequence[Item], kept: Sequence[int]) -> list[Item]:
    return [column[k] for k in kept]
