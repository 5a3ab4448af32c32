"""Pools the replies of each arm over sessions, which are rounds: the first repeats of a sample are those of the first session.

Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from pytest_crucible.records import ArmOutcomes, Draws, Look, Lost, ScoreColumns

Place = tuple[int, int]
"""Position and repeat of a reply in its session."""


@dataclass(frozen=True, slots=True)
class Part:
    """The replies that one session adds to a pool."""

    answers: ArmOutcomes
    new: frozenset[Place]
    """Places of replies that are new in this session: neither copied nor cached."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The replies of a candidate over sessions, and of the baseline where a comparison is decided."""

    look: Look
    answers: tuple[ArmOutcomes, ...]
    repeats: int
    """The replies that a sample has in either arm, absent ones included: as many for each round."""
    rounds: int = 1
    """The sessions that brought replies of either arm."""
    is_paired: bool = True
    """Whether both arms have replies of the same sessions, whose noise they share; a stored baseline has not."""


def pool_arms(arms_of_sessions: Sequence[Sequence[Part]], look: Look) -> Pool:
    """Return the pool of these arms, with a round for each session that brought replies."""
    everything = list(zip(*arms_of_sessions, strict=True))
    sessions = [session for session in everything if any(map(_new_places, session))]
    # Without any new reply, the pool is empty.
    arms = list(zip(*(sessions or everything), strict=True))
    counts = [Counter(position for position, _ in _new_places(part)) for part in chain(*arms)]
    width, rounds = max((max(count.values()) for count in counts if count), default=1), max(len(sessions), 1)
    repeats = width * rounds
    return Pool(
        replace(look, sessions=tuple(max(sum(bool(part.new) for part in parts), 1) for parts in arms_of_sessions)),
        tuple(fill_repeats(pool_answers(parts, width), repeats) for parts in arms),
        repeats,
        rounds,
        all(all(map(_new_places, session)) for session in sessions),
    )


def pool_answers(parts: Sequence[Part], width: int) -> ArmOutcomes:
    """Return the new replies of all sessions as repeats of their samples, `width` for each session.

    A reply that a session lost is lost in the pool, too.
    """
    moved = [_move(part, first=number * width) for number, part in enumerate(parts)]
    return ArmOutcomes(
        positions=[position for answers in moved for position in answers.positions],
        repeats=[repeat for answers in moved for repeat in answers.repeats],
        failures=[failure for answers in moved for failure in answers.failures],
        skipped=[skipped for answers in moved for skipped in answers.skipped],
        scores={
            name: _join([answers.scores[name] for answers in moved if name in answers.scores])
            for name in dict.fromkeys(name for answers in moved for name in answers.scores)
        },
        lost=[loss for answers in moved for loss in answers.lost],
        labels=frozenset().union(*(answers.labels for answers in moved)),
    )


def fill_repeats(answers: ArmOutcomes, repeats: int) -> ArmOutcomes:
    """Return the answers with this many repeats of each sample. A repeat without a reply counts as skipped, not as lost."""
    there = {*zip(answers.positions, answers.repeats, strict=True), *map(_place, answers.lost)}
    absent = [
        (position, repeat)
        for position in dict.fromkeys(position for position, _ in sorted(there))
        for repeat in range(repeats)
        if (position, repeat) not in there
    ]
    return replace(
        answers,
        positions=[*answers.positions, *(position for position, _ in absent)],
        repeats=[*answers.repeats, *(repeat for _, repeat in absent)],
        failures=[*answers.failures, *(None for _ in absent)],
        skipped=[*answers.skipped, *(True for _ in absent)],
    )


def _new_places(part: Part) -> frozenset[Place]:
    """Return the places of a part's new replies, and of those that its session lost."""
    return part.new | {_place(loss) for loss in part.answers.lost if loss.metric is None}


def _move(part: Part, first: int) -> ArmOutcomes:
    """Return the new replies of a part at the repeats of its round, which begin at `first`."""
    answers = part.answers
    taken: Counter[int] = Counter()
    places: dict[Place, int] = {}
    for place in sorted(_new_places(part)):
        places[place] = first + taken[place[0]]
        taken[place[0]] += 1
    kept = _select_kept(answers.positions, answers.repeats, places)
    return replace(
        answers,
        positions=[answers.positions[k] for k in kept],
        repeats=[places[answers.positions[k], answers.repeats[k]] for k in kept],
        failures=[answers.failures[k] for k in kept],
        skipped=[answers.skipped[k] for k in kept],
        scores={name: _move_column(column, places) for name, column in answers.scores.items()},
        lost=[
            replace(loss, unit=loss.unit._replace(repeat=places[_place(loss)]))
            for loss in answers.lost
            if _place(loss) in places
        ],
        told={},
    )


def _move_column(column: ScoreColumns, places: Mapping[Place, int]) -> ScoreColumns:
    kept = _select_kept(column.positions, column.repeats, places)
    return ScoreColumns(
        positions=[column.positions[k] for k in kept],
        repeats=[places[column.positions[k], column.repeats[k]] for k in kept],
        values=[column.values[k] for k in kept],
        is_bool=[column.is_bool[k] for k in kept],
    )


def _join(columns: Iterable[ScoreColumns]) -> ScoreColumns:
    parts = list(columns)
    return ScoreColumns(
        positions=[position for column in parts for position in column.positions],
        repeats=[repeat for column in parts for repeat in column.repeats],
        values=[value for column in parts for value in column.values],
        is_bool=[flag for column in parts for flag in column.is_bool],
    )


def _select_kept(positions: Sequence[int], repeats: Sequence[int], places: Mapping[Place, int]) -> list[int]:
    return [k for k, place in enumerate(zip(positions, repeats, strict=True)) if place in places]


def _place(loss: Lost) -> Place:
    return loss.unit.position, loss.unit.repeat


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
