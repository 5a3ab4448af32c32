"""Gathers an arm's results while they arrive, in the form in which the run store gives them back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_crucible.records import ArmOutcomes, Draws, Lost, Observation, Outcome, ScoreColumns


@dataclass(slots=True)
class _Column:
    """The scores of one metric in one arm."""

    positions: list[int] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    is_bool: list[bool] = field(default_factory=list)

    def add(self, position: int, repeat: int, value: float | None) -> None:
        self.positions.append(position)
        self.repeats.append(repeat)
        self.values.append(value)
        self.is_bool.append(isinstance(value, bool))


class ArmRows:
    """One arm's results on the original samples, or on their twins in one variant, in the form that the store returns."""

    def __init__(self, stored: ArmOutcomes, draws: Draws) -> None:
        self._draws = draws
        self.positions, self.repeats = list(stored.positions), list(stored.repeats)
        self.failures, self.skipped = list(stored.failures), list(stored.skipped)
        self.lost, self.labels = list(stored.lost), set(stored.labels)
        self.scores = defaultdict(_Column) | {
            name: _Column(list(column.positions), list(column.repeats), list(column.values), list(column.is_bool))
            for name, column in stored.scores.items()
        }

    def add(self, outcome: Outcome, observations: Sequence[Observation], lost: Sequence[Lost]) -> None:
        position, variant = outcome.unit.position, outcome.unit.variant % self._draws.prompts
        repeat = self._draws.place(variant, outcome.unit.repeat)
        # The analysis knows a reply by its place in the table of all of the arm's replies to the sample.
        unit = outcome.unit._replace(repeat=repeat)
        if outcome.lost:
            self.lost.append(Lost(unit, None, outcome.lost, outcome.detail))
            return
        self.positions.append(position)
        self.repeats.append(repeat)
        self.failures.append(outcome.failure)
        self.skipped.append(outcome.skipped)
        self.lost += [replace(loss, unit=unit) for loss in lost]
        for observation in observations:
            if isinstance(observation.value, str):
                self.labels.add(observation.metric)
            else:
                self.scores[observation.metric].add(position, repeat, observation.value)

    def outcomes(self) -> ArmOutcomes:
        """Return the results so far. They share the growing lists: use them at a look, and do not keep them."""
        return ArmOutcomes(
            positions=self.positions,
            repeats=self.repeats,
            failures=self.failures,
            skipped=self.skipped,
            scores={
                name: ScoreColumns(
                    positions=column.positions, repeats=column.repeats, values=column.values, is_bool=column.is_bool
                )
                for name, column in self.scores.items()
            },
            lost=self.lost,
            labels=frozenset(self.labels),
        )
