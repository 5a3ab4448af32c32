"""Ends an experiment of a run with --crucible-stop: at a look that finds all of its verdicts settled, no unit is sent any more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.stopping import answered_units, settled_after
from pytest_crucible.plan.look_order import complete_length, look_order
from pytest_crucible.records import ArmOutcomes, Draws, Lost, Observation, Outcome, Plan, Sample, ScoreColumns, Unit

# A look costs about a millisecond for each thousand samples: one for each 2 % more samples finds the end soon enough.
GROWTH = 1.02


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


class _ArmRows:
    """One arm's results as they come, in the form in which the store gives them back."""

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
        position, repeat = outcome.unit.position, self._draws.place(outcome.unit.variant, outcome.unit.repeat)
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
        """Return the results so far. They share the lists, which grow: for a look, and not to be kept."""
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


class EarlyStop:
    """Follows an experiment's results in look order, and decides at each look whether it goes on."""

    def __init__(
        self,
        plan: Plan,
        alpha: float,
        samples: Sequence[Sample],
        stored: Sequence[ArmOutcomes],
        known_kinds: Mapping[str, str],
    ) -> None:
        self._plan, self._alpha, self._known_kinds = plan, alpha, known_kinds
        self._groups = [sample.group for sample in samples]
        self.order = look_order([sample.id for sample in samples], self._groups)
        self._arms = [_ArmRows(outcomes, plan.draws(number)) for number, outcomes in enumerate(stored)]
        # An arm of a stored run has the replies that it has: nobody waits for others.
        self._awaited = {
            number: (Counter(answered_units(stored[number])), plan.draws(number).size)
            for number, arm in enumerate(plan.arms)
            if arm.stored_run is None
        }
        self._complete = 0
        self._next_look = 1.0
        self.is_settled = False
        self._look()

    def until_settled(self, units: Iterator[Unit]) -> Iterator[Unit]:
        """Yield the units until a look finds everything settled."""
        for unit in units:
            if self.is_settled:
                return
            yield unit

    def add(self, outcome: Outcome, observations: Sequence[Observation], lost: Sequence[Lost]) -> None:
        """Add the results of a unit, and look if enough samples are complete. Raises SpecError for a metric without bounds."""
        unit = outcome.unit
        self._arms[unit.arm].add(outcome, observations, lost)
        self._awaited[unit.arm][0][unit.position] += 1
        self._look()

    def _look(self) -> None:
        self._complete = complete_length(self.order, self._groups, self._is_complete, self._complete)
        if self.is_settled or self._complete < self._next_look:
            return
        self._next_look = self._complete * GROWTH
        inputs = AnalysisInputs(
            plan=self._plan,
            answers=tuple(arm.outcomes() for arm in self._arms),
            groups=self._groups,
            finished=True,
            known_kinds=self._known_kinds,
        )
        self.is_settled = settled_after(inputs, self.order[: self._complete], self._alpha) is not None

    def _is_complete(self, position: int) -> bool:
        return all(counts[position] >= size for counts, size in self._awaited.values())
