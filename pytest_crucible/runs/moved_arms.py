"""Arms of stored experiments, with each reply at the place that its sample and repeat have in a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_crucible.analyse.realign import realign
from pytest_crucible.records import ArmOutcomes, Plan
from pytest_crucible.runs.common_variants import load_variant_answers
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedArm:
    """One arm of a stored experiment, and where its replies go."""

    store: RunStore
    key: int
    plan: Plan
    number: int
    places: Mapping[int, int]
    """Position of a sample -> its position in the comparison."""
    repeats: Mapping[int, int]
    """Place of a reply to a sample -> its place in the comparison."""

    def answers(self) -> ArmOutcomes:
        """Return the outcomes on the original samples."""
        return self._move(load_outcomes(self.store, self.key, self.number, self.plan.draws(self.number)))

    def on_variants(self) -> dict[str, ArmOutcomes]:
        """Return the outcomes on each variant, by its name."""
        return {name: self._move(arm) for name, arm in load_variant_answers(self.store, self.key, self.number).items()}

    def _move(self, answers: ArmOutcomes) -> ArmOutcomes:
        return realign(answers, self.places, self.repeats)
