"""The fewest answers that must be other ones to change a decision (Walsh et al. 2014, J. Clin. Epidemiol. 67:622, fragility index).

The decision is any function of the answers; nothing here knows how it is made. Where more answers on one side can only move a
decision further, as for a bound or a one-sided test, the fewest are found by halving. Elsewhere all sets are tried, up to a limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence

Changes = Callable[[int], bool]
"""Returns whether a number of answers changes the decision."""
SCANNED = 24
"""Up to so many answers every number is tried: exact p-values of few pairs are not quite monotone."""
TRIED = 256
"""Numbers that are tried where more answers may undo a change."""


def fewest_answers(changes: Changes, most: int, *, guess: int = 1, is_one_sided: bool = True) -> int | None:
    """Return the smallest number from 1 to `most` that changes a decision; None if there is none.

    Above `SCANNED` a number that changes it is taken to change it with every larger one, too, and the search starts at `guess`.
    Unless it is one-sided, more answers may undo the change, as when they leave an equivalent range at its other end: then up to
    `TRIED` numbers from 1 to `most` are tried, and `guess`.

    >>> fewest_answers(lambda answers: answers >= 700, 1319, guess=650), fewest_answers(lambda answers: False, 5)
    (700, None)
    >>> fewest_answers(lambda answers: 24 <= answers <= 31, 55, is_one_sided=False)
    24
    """
    if not is_one_sided:
        return _fewest_of_range(changes, most, guess)
    guess = min(max(guess, 1), most)
    # A guess that changes it shows without the largest number that some do.
    if not most or not ((most > SCANNED and changes(guess)) or changes(most)):
        return None
    if most <= SCANNED:
        return next((number for number in range(1, most + 1) if changes(number)), None)
    return _halve(changes, *_enclose(changes, most, guess))


def _fewest_of_range(changes: Changes, most: int, guess: int) -> int | None:
    """Return the smallest number that changes a decision, of those after the last one tried that did not."""
    numbers = sorted({*range(1, most + 1, math.ceil(most / TRIED) or 1), min(max(guess, 1), most), most} - {0})
    below = 0
    for number in numbers:
        if changes(number):
            return _halve(changes, below, number)
        below = number
    return None


def _halve(changes: Changes, below: int, above: int) -> int:
    """Return the smallest number that changes a decision, of those above one that does not and up to one that does."""
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if changes(middle) else (middle, above)
    return above


def _enclose(changes: Changes, most: int, guess: int) -> tuple[int, int]:
    """Return a number that changes nothing and one that does, near the guess: steps double, because a good guess is off by few."""
    step = 1
    if changes(guess):
        above = guess
        while above - step > 0 and changes(above - step):
            above, step = above - step, 2 * step
        return max(above - step, 0), above
    below = guess
    while not changes(min(below + step, most)):
        below, step = below + step, 2 * step
    return below, min(below + step, most)


def splits(number: int, rooms: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the ways to take a number of answers from two kinds that are most unequal, of which one moves a decision most.

    Of two kinds of pairs that move an estimate alike, one makes pairs disagree and the other makes them agree.

    >>> splits(5, (3, 9)), splits(2, (0, 9))
    ([(3, 2), (0, 5)], [(0, 2)])
    """
    first = min(number, rooms[0]), number - min(number, rooms[0])
    second = number - min(number, rooms[1]), min(number, rooms[1])
    ways = dict.fromkeys((first, second))
    return [way for way in ways if way[0] <= rooms[0] and way[1] <= rooms[1]]


def smallest_set(
    kinds: Sequence[Hashable], changes: Callable[[Sequence[int]], bool], *, below: int, most_sets: int
) -> tuple[tuple[int, ...] | None, bool]:
    """Return the smallest set of positions, of fewer than `below`, that changes a decision, and whether all were tried.

    Answers of one kind are alike, so that only their number matters. After `most_sets` sets the search ends: without a set, and
    with False.

    >>> smallest_set("aab", lambda chosen: sum(chosen) >= 3, below=4, most_sets=100)
    ((0, 1, 2), True)
    """
    tried = 0
    for size in range(1, below):
        for chosen in _sets(kinds, size):
            if tried == most_sets:
                return None, False
            tried += 1
            if changes(chosen):
                return chosen, True
    return None, True


def count_sets(kinds: Sequence[Hashable], *, below: int) -> int:
    """Return how many sets of fewer than `below` answers differ in their numbers of each kind.

    >>> count_sets("aab", below=4), count_sets("abcd", below=2)
    (5, 4)
    """
    ways = [1] + [0] * (below - 1)
    for size in Counter(kinds).values():
        ways = [sum(ways[max(number - size, 0) : number + 1]) for number in range(below)]
    return sum(ways[1:])


def _sets(kinds: Sequence[Hashable], size: int) -> Iterator[tuple[int, ...]]:
    """Yield one set of positions of a size for each way to take a number of each kind."""
    places: dict[Hashable, list[int]] = {}
    for place, kind in enumerate(kinds):
        places.setdefault(kind, []).append(place)
    groups = list(places.values())

    def take(group: int, left: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield ()
        elif group < len(groups):
            for number in range(min(left, len(groups[group])), -1, -1):
                for rest in take(group + 1, left - number):
                    yield (*groups[group][:number], *rest)

    return take(0, size)
