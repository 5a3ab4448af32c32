"""Factors: sources of noise other than the samples. They span a table of replies to each sample in an arm."""

from __future__ import annotations

import math
from typing import NamedTuple

FACTORS = ("prompts", "trainings", "rounds")
"""A factor is random (claims are about levels like these) or declared fixed (claims are about these levels alone)."""
FEWEST_LEVELS = 3
"""Levels that a random factor needs for a verdict."""


class Draws(NamedTuple):
    """The replies of one arm to one sample, as a table. A unit's variant is its prompt; its repeat counts the rest.

    Twins of the sample have tables of their own, which follow: with two prompts, the variants 2 and 3 are the first twin.
    """

    prompts: int = 1
    trainings: int = 1
    rounds: int = 1
    repeats: int = 1
    """Replies within one round."""

    @property
    def size(self) -> int:
        return math.prod(self)

    def place(self, variant: int, repeat: int) -> int:
        """Return the place of one reply in the table, counted from 0.

        >>> Draws(prompts=3, trainings=2, rounds=2, repeats=5).place(variant=2, repeat=19)
        59
        """
        return variant * self.size // self.prompts + repeat

    def twin(self, variant: int) -> int:
        """Return the number of a variant's twin; 0 is the original sample."""
        return variant // self.prompts

    def twin_at(self, place: int) -> int:
        """Return the number of the twin that the reply at a place is to; 0 is the original sample."""
        return place // self.size

    def levels(self, place: int) -> Draws:
        """Return the level of each factor of the reply at a place, counted from 0.

        >>> Draws(prompts=3, trainings=2, rounds=2, repeats=5).levels(59)
        Draws(prompts=2, trainings=1, rounds=1, repeats=4)
        """
        levels = []
        for size in reversed(self):
            place, level = divmod(place, size)
            levels.append(level)
        return Draws(*reversed(levels))

    def repeats_of_round(self, number: int) -> list[int]:
        """Return the repeats of a round, those of each training side by side.

        >>> Draws(trainings=2, rounds=3, repeats=2).repeats_of_round(1)
        [2, 8, 3, 9]
        """
        return [
            (training * self.rounds + number) * self.repeats + repeat
            for repeat in range(self.repeats)
            for training in range(self.trainings)
        ]

    def training(self, repeat: int) -> int:
        """Return which of the arm's trainings answers in a repeat."""
        return repeat // (self.rounds * self.repeats)

    def cache_name(self, repeat: int) -> int | str:
        """Return the repeat in the reply cache's keys: equal in every design, and different for each round.

        >>> Draws(rounds=2, repeats=3).cache_name(2), Draws(rounds=2, repeats=3).cache_name(4)
        (2, 'round 1, repeat 1')
        """
        of_round, number = divmod(repeat % (self.rounds * self.repeats), self.repeats)
        return f"round {of_round}, repeat {number}" if of_round else number
