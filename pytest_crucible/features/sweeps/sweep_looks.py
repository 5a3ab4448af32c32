"""The looks of a sweep: after an eighth, a quarter and half of the choosing half, members that are proven worse go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.members import member_values
from pytest_crucible.features.sweeps.records import Sweep
from pytest_crucible.features.sweeps.rounds import members_that_go_on
from pytest_crucible.records import ArmOutcomes
from pytest_crucible.records.errors import UnsuitableMetric, closest_name


@dataclass
class SweepLooks:
    """A rule of looks: at each planned look some members are dropped."""

    sweep: Sweep
    decide: Callable[[int, list[str]], list[str]]
    """Stores the names of the members that go on after the look with this number; returns those that were stored first."""
    _looks: int = field(default=0)

    def next_look(self, looked: int, complete: int) -> int | None:
        # The first sample shows whether the metric that chooses is scored at all.
        if not looked and complete:
            return 1
        return next((length for length in self.sweep.looks if looked < length <= complete), None)

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return the members that go on. Raises StoreError if the decision cannot be stored, and UnsuitableMetric."""
        if len(looked_at) == 1:
            self._check_scored(inputs.answers)
            return live
        arms, names = sorted(live), [member.name for member in self.sweep.members]
        compared = member_values(inputs, self.sweep.by, arms, looked_at)
        kept = arms
        # Members are dropped by pairs, which conditional means do not have.
        if compared is not None and not compared.is_conditional:
            columns = members_that_go_on(
                compared.scores, compared.clusters, drop=self.sweep.drop, looks=len(self.sweep.looks)
            )
            kept = [arms[column] for column in columns]
        stored = self.decide(self._looks, [names[arm] for arm in kept])
        self._looks += 1
        # The last one has won: its further replies would decide nothing.
        if len(stored) == 1 and self.sweep.confirm:
            return frozenset()
        return frozenset(names.index(name) for name in stored)

    def _check_scored(self, answers: Sequence[ArmOutcomes]) -> None:
        scored = {name for arm in answers for name in (*arm.scores, *arm.labels)}
        if scored and self.sweep.by not in {name for arm in answers for name in arm.scores}:
            raise UnsuitableMetric(unscored_text(self.sweep, answers))


def unscored_text(sweep: Sweep, answers: Sequence[ArmOutcomes]) -> str:
    """Return the sentence for a metric that no reply was scored by."""
    names = sorted({name for arm in answers for name in arm.scores})
    use = f'set by = "{closest_name(sweep.by, names, cutoff=0.0)}"' if names else "name a metric that is scored"
    return f"the sweep of {sweep.family!r} chooses by {sweep.by!r}, which no selected test scores: {use}"
