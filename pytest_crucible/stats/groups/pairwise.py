"""The result type of post-hoc tests and planned contrasts: one record for each pair of arms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from pytest_crucible.records import Interval
from pytest_crucible.records.number_format import p_equals, with_interval, with_note
from pytest_crucible.stats.results import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastResult:
    """First arm minus second arm. Statistic and interval are None if nothing varies."""

    first: int
    """Position of the arm, from 0."""
    second: int
    difference: float
    """The difference of means, or of mean ranks for the rank tests."""
    statistic: float | None
    p_adjusted: float | None
    """The p-value to report: adjusted for the family of pairs."""
    p_value: float | None = None
    """The p-value before adjustment; None if the test has only the adjusted one."""
    dof: float | None = None
    """None for normal statistics."""
    se: float | None = None
    interval: Interval | None = None
    """Simultaneous interval: all intervals of the family hold together."""
    own_interval: Interval | None = None
    """The interval of this pair alone, where the test has one: it excludes 0 exactly when p_value is below 1 - level."""
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        line = f"{self.first} - {self.second}: {with_interval(self.difference, self.interval, sign=True)}"
        return with_note(f"{line}, adjusted {p_equals(self.p_adjusted)}", self.note)


def all_pairs(arms: int) -> list[tuple[int, int]]:
    """Return every pair of arms, in the order (0, 1), (0, 2), ..., (1, 2), ...

    >>> all_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(itertools.combinations(range(arms), 2))
