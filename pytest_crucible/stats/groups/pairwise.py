"""One contrast between two of several arms: the record that every post-hoc test answers with, one for each pair."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from pytest_crucible.numerals import noted, p_equals, with_interval
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """First arm minus second arm. Statistic and interval are None where nothing varies."""

    first: int
    """Position of the arm, from 0."""
    second: int
    difference: float
    """Of means, or of mean ranks for the rank tests."""
    statistic: float | None
    p_adjusted: float | None
    """The p-value that counts: of this pair as one of the family."""
    p_value: float | None = None
    """Before adjustment; None where the test has only the adjusted one."""
    dof: float | None = None
    """None for normal statistics."""
    se: float | None = None
    interval: Interval | None = None
    """Simultaneous: all intervals of the family are right together."""
    own_interval: Interval | None = None
    """Of this pair alone, where the test has one: it excludes 0 exactly when p_value is below 1 - level."""
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        shown = f"{self.first} - {self.second}: {with_interval(self.difference, self.interval, sign=True)}"
        return noted(f"{shown}, adjusted {p_equals(self.p_adjusted)}", self.note)


def all_pairs(arms: int) -> list[tuple[int, int]]:
    """Every pair of arms, in the order (0, 1), (0, 2), ..., (1, 2), ...

    >>> all_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(itertools.combinations(range(arms), 2))
