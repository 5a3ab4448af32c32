"""Moves one arm's replies to the places that the same samples and repeats have in another experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from pytest_crucible.records import ArmOutcomes, Draws, ScoreColumns

Item = TypeVar("Item")


def repeat_places(source: Draws, target: Draws, prompts: Sequence[int] = (0,)) -> dict[int, int]:
    """Return the place in one table of replies -> the place of the same reply in another, where both have it.

    `prompts` are the source's numbers of the target's prompts.

    >>> repeat_places(Draws(rounds=2, repeats=2), Draws(rounds=1, repeats=3))
    {0: 0, 1: 1}
    """
    tables = [np.arange(draws.size).reshape(draws) for draws in (source, target)]
    common = tuple(slice(min(pair)) for pair in zip(source[1:], target[1:], strict=True))
    kept = (tables[0][list(prompts)], tables[1][: len(prompts)])
    places = (table[:, *common].ravel().tolist() for table in kept)
    return dict(zip(*places, strict=True))


def realign(answers: ArmOutcomes, places: Mapping[int, int], repeats: Mapping[int, int]) -> ArmOutcomes:
    """Return the answers with position k moved to `places[k]` and repeat k to `repeats[k]`; a reply without a place is left out."""
    indices = _kept_indices(answers.positions, answers.repeats, places, repeats)
    return replace(
        answers,
        positions=[places[position] for position in _at(answers.positions, indices)],
        repeats=[repeats[repeat] for repeat in _at(answers.repeats, indices)],
        failures=_at(answers.failures, indices),
        skipped=_at(answers.skipped, indices),
        scores={name: _column(column, places, repeats) for name, column in answers.scores.items()},
        lost=[
            replace(
                loss,
                unit=loss.unit._replace(position=places[loss.unit.position], repeat=repeats[loss.unit.repeat]),
            )
            for loss in answers.lost
            if loss.unit.position in places and loss.unit.repeat in repeats
        ],
    )


def _column(column: ScoreColumns, places: Mapping[int, int], repeats: Mapping[int, int]) -> ScoreColumns:
    indices = _kept_indices(column.positions, column.repeats, places, repeats)
    return ScoreColumns(
        positions=[places[position] for position in _at(column.positions, indices)],
        repeats=[repeats[repeat] for repeat in _at(column.repeats, indices)],
        values=_at(column.values, indices),
        is_bool=_at(column.is_bool, indices),
    )


def _kept_indices(
    positions: Sequence[int], of_repeats: Sequence[int], places: Mapping[int, int], repeats: Mapping[int, int]
) -> list[int]:
    units = enumerate(zip(positions, of_repeats, strict=True))
    # The other run may have had more repeats; the ones that this run lacks have nothing to pair with.
    return [k for k, (position, repeat) in units if position in places and repeat in repeats]


def _at(column: Sequence[Item], indices: Sequence[int]) -> list[Item]:
    return [column[k] for k in indices]
