"""Pools the replies of each arm over sessions, which are rounds: the first repeats of a sample are those of the first session.

Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, Draws, Look, Lost
from pytest_crucible.records.outcomes import Place, join_outcomes, move_units, skip_units


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
    return join_outcomes([_new_replies(part, first=number * width) for number, part in enumerate(parts)])


def fill_repeats(answers: ArmOutcomes, repeats: int) -> ArmOutcomes:
    """Return the answers with this many repeats of each sample. A repeat without a reply counts as skipped, not as lost."""
    there = {*zip(answers.positions, answers.repeats, strict=True), *map(_place, answers.lost)}
    absent = [
        (position, repeat)
        for position in dict.fromkeys(position for position, _ in sorted(there))
        for repeat in range(repeats)
        if (position, repeat) not in there
    ]
    return skip_units(answers, absent)


def _new_places(part: Part) -> frozenset[Place]:
    """Return the places of a part's new replies, and of those that its session lost."""
    return part.new | {_place(loss) for loss in part.answers.lost if loss.metric is None}


def _new_replies(part: Part, first: int) -> ArmOutcomes:
    """Return the new replies of a part at the repeats of its round, which begin at `first`."""
    counts: Counter[int] = Counter()
    places: dict[Place, Place] = {}
    for position, repeat in sorted(_new_places(part)):
        places[position, repeat] = (position, first + counts[position])
        counts[position] += 1
    return replace(move_units(part.answers, places.get), judge_texts={})


def _place(loss: Lost) -> Place:
    return loss.unit.position, loss.unit.repeat


def repeat_places(source: Draws, target: Draws, prompts: Sequence[int] = (0,)) -> dict[int, int]:
    """Return the place in one table of replies -> the place of the same reply in another, where both have it.

    `prompts` are the source's numbers of the target's prompts.

    >>> repeat_places(Draws(rounds=2, repeats=2), Draws(rounds=1, repeats=3))
    {0: 0, 1: 1}
    """
    tables = [np.arange(draws.size).reshape(draws) for draws in (source, target)]
    common = tuple(slice(min(pair)) for pair in zip(source[1:], target[1:], strict=True))
    common_parts = (tables[0][list(prompts)], tables[1][: len(prompts)])
    places = (table[:, *common].ravel().tolist() for table in common_parts)
    return dict(zip(*places, strict=True))


def realign(answers: ArmOutcomes, places: Mapping[int, int], repeats: Mapping[int, int]) -> ArmOutcomes:
    """Return the answers with position k moved to `places[k]` and repeat k to `repeats[k]`; a reply without a place is left out."""
    # The other run may have had more repeats; the ones that this run lacks have nothing to pair with.
    return move_units(
        answers,
        lambda unit: (places[unit[0]], repeats[unit[1]]) if unit[0] in places and unit[1] in repeats else None,
    )
