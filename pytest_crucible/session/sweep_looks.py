"""The looks of a sweep: after an eighth, a quarter and half of the choosing half, members that are proven worse go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.member_values import member_values
from pytest_crucible.records import Sweep
from pytest_crucible.sweeps.drops import members_that_go_on


@dataclass
class SweepLooks:
    """A rule of looks: at each planned look some members are dropped."""

    sweep: Sweep
    decide: Callable[[int, list[str]], list[str]]
    """Stores the names of the members that go on after the look of this number, and returns those that were stored first."""
    _looks: int = field(default=0)

    def next_look(self, looked: int, complete: int) -> int | None:
        return next((length for length in self.sweep.looks if looked < length <= complete), None)

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return the members that go on. Raises StoreError where the decision cannot be stored."""
        arms, names = sorted(live), [member.name for member in self.sweep.members]
        compared = member_values(inputs, self.sweep.by, arms, looked_at)
        kept = arms
        if compared is not None:
            columns = members_that_go_on(
                compared.scores, compared.clusters, drop=self.sweep.drop, looks=len(self.sweep.looks)
            )
            kept = [arms[column] for column in columns]
        stored = self.decide(self._looks, [names[arm] for arm in kept])
        self._looks += 1
        return frozenset(names.index(name) for name in stored)
