"""Pools the replies of one arm over sessions, and numbers the repeats of each sample again. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_crucible.records import ArmOutcomes, Look, Lost, ScoreColumns

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
    """The most replies that a sample has in either arm."""


def pool_arms(arms_of_sessions: Sequence[Sequence[Part]], look: Look) -> Pool:
    """Return the pool of these arms, with the same number of repeats in each."""
    arms = [pool_answers(parts) for parts in arms_of_sessions]
    most = max((have for answers in arms for have in repeats_of(answers).values()), default=1)
    return Pool(look, tuple(fill_repeats(answers, most) for answers in arms), most)


def pool_answers(parts: Sequence[Part]) -> ArmOutcomes:
    """Return the new replies of all sessions as repeats of their samples. A reply that a session lost is lost in the pool, too."""
    taken: Counter[int] = Counter()
    moved = [_move(part, taken) for part in parts]
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


def repeats_of(answers: ArmOutcomes) -> Mapping[int, int]:
    """Return the number of replies of each sample, lost ones included, by its position."""
    most: dict[int, int] = {}
    units = [
        *zip(answers.positions, answers.repeats, strict=True),
        *((loss.unit[0], loss.unit[3]) for loss in answers.lost),
    ]
    for position, repeat in units:
        most[position] = max(most.get(position, 0), repeat + 1)
    return most


def fill_repeats(answers: ArmOutcomes, repeats: int) -> ArmOutcomes:
    """Return the answers with this many repeats of each sample. A repeat without a reply counts as skipped, not as lost."""
    absent = [(k, repeat) for k, have in repeats_of(answers).items() for repeat in range(have, repeats)]
    return replace(
        answers,
        positions=[*answers.positions, *(position for position, _ in absent)],
        repeats=[*answers.repeats, *(repeat for _, repeat in absent)],
        failures=[*answers.failures, *(None for _ in absent)],
        skipped=[*answers.skipped, *(True for _ in absent)],
    )


def _move(part: Part, taken: Counter[int]) -> ArmOutcomes:
    """Return the new replies of a part at the next free repeats of their samples."""
    answers = part.answers
    gone = {_place(loss) for loss in answers.lost if loss.metric is None}
    places: dict[Place, int] = {}
    for place in sorted(part.new | gone):
        places[place] = taken[place[0]]
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
