"""Looks at an experiment's results while it runs: at each look a rule returns the arms that go on.

The other arms get no more units. A look sees the samples from the beginning of the look order that are complete in all arms
that go on. The order of arrival does not matter: otherwise fast answers would decide.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Protocol

from pytest_crucible.analyse.analysis import AnalysisInputs, uses_expected, uses_fields
from pytest_crucible.analyse.scores import mark_inapplicable
from pytest_crucible.analyse.stopping import answered_by_arm, skip_samples
from pytest_crucible.plan.arms import complete_length, look_order
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes, Draws, Lost, Observation, Outcome, Plan, Sample, ScoreColumns, Unit
from pytest_crucible.records.outcomes import Place, move_units


class LookRule(Protocol):
    """A rule for when a run looks and which arms go on; both depend only on the results of the samples looked at."""

    def next_look(self, looked: int, complete: int) -> int | None:
        """Return at how many samples to look now; None to wait for more. The last look was at `looked`."""

    def arms_that_go_on(self, inputs: AnalysisInputs, looked_at: Sequence[int], live: frozenset[int]) -> frozenset[int]:
        """Return the arms, of those that are live, that get further units; none ends the experiment.

        `looked_at` are the samples in look order. Results of other samples are among the inputs, and may not be used.
        """


class Looks:
    """Follows an experiment's results in look order, and lets the rule decide at each look which arms go on."""

    def __init__(
        self,
        rule: LookRule,
        plan: Plan,
        samples: Sequence[Sample],
        stored: Sequence[ArmOutcomes],
        known_kinds: Mapping[str, str],
        variants: Mapping[str, Sequence[ArmOutcomes]] = MappingProxyType({}),
        twins: Sequence[frozenset[int]] = (),
    ) -> None:
        """`stored` are the arms' replies so far, and `variants` those to the twins of each variant.

        `twins` are the positions of the samples that each variant applies to.
        """
        self._rule, self._plan, self._known_kinds, self._twins = rule, plan, known_kinds, twins
        self._groups = [sample.cluster for sample in samples]
        self._expected = [sample.expected for sample in samples] if uses_expected(plan) else []
        self._metadata = [sample.metadata for sample in samples] if uses_fields(plan) else []
        self.order = look_order([sample.id for sample in samples], self._groups)
        self._arms = [
            [ArmRows(outcomes, plan.draws(number)) for number, outcomes in enumerate(of_arms)]
            for of_arms in (stored, *variants.values())
        ]
        # An arm of a stored run gets no further replies to wait for.
        self._awaited = {
            number: Counter(units)
            for number, units in enumerate(answered_by_arm(stored, variants))
            if plan.arms[number].stored_run is None
        }
        self.live = frozenset(range(len(plan.arms)))
        self._complete = self._looked = 0
        self._look()

    def of_live_arms(self, units: Iterator[Unit], skip: Callable[[Unit], None] = lambda unit: None) -> Iterator[Unit]:
        """Yield the units of the arms that go on at that moment; call `skip` with the others."""
        for unit in units:
            if not self.live:
                return
            if unit.arm in self.live:
                yield unit
            else:
                skip(unit)

    def add(self, outcome: Outcome, observations: Sequence[Observation], lost: Sequence[Lost]) -> None:
        """Add the results of a unit, and look if enough samples are complete. Raises what the rule raises."""
        unit = outcome.unit
        self._arms[self._plan.draws(unit.arm).twin(unit.variant)][unit.arm].add(outcome, observations, lost)
        self._awaited[unit.arm][unit.position] += 1
        self._look()

    def remove(self, units: Collection[Unit]) -> None:
        """Forget stored replies that are sent again."""
        for unit in units:
            self._awaited[unit.arm][unit.position] -= 1
        gone: dict[tuple[int, int], set[Place]] = defaultdict(set)
        for unit in units:
            draws = self._plan.draws(unit.arm)
            place = draws.place(unit.variant % draws.prompts, unit.repeat)
            gone[draws.twin(unit.variant), unit.arm].add((unit.position, place))
        for (twin, arm), places in gone.items():
            remaining = _without_places(self._arms[twin][arm].outcomes(), places)
            self._arms[twin][arm] = ArmRows(remaining, self._plan.draws(arm))
        self._complete = 0

    def _look(self) -> None:
        while self.live:
            # It grows when an arm that the others waited for is out.
            self._complete = complete_length(self.order, self._groups, self._is_complete, self._complete)
            length = self._rule.next_look(self._looked, self._complete)
            if length is None:
                return
            self._looked = length
            self.live = self._rule.arms_that_go_on(self._inputs(), self.order[:length], self.live)

    def _inputs(self) -> AnalysisInputs:
        originals, *of_twins = (tuple(arm.outcomes() for arm in of_arms) for of_arms in self._arms)
        names = [variant.name for variant in self._plan.variants]
        marked = {
            name: mark_inapplicable(self._plan, answers, self._expected)
            for name, answers in zip(names, of_twins, strict=True)
        }
        every = set(range(len(self._groups)))
        return AnalysisInputs(
            plan=self._plan,
            answers=mark_inapplicable(self._plan, originals, self._expected),
            groups=self._groups,
            finished=True,
            known_kinds=self._known_kinds,
            expected=self._expected,
            metadata=self._metadata,
            variants={
                name: skip_samples(self._plan, answers, every - twins)
                for (name, answers), twins in zip(marked.items(), self._twins, strict=True)
            },
        )

    def _is_complete(self, position: int) -> bool:
        forms = 1 + sum(position in twins for twins in self._twins)
        return all(
            counts[position] >= self._plan.draws(arm).size * forms
            for arm, counts in self._awaited.items()
            if arm in self.live
        )


def _without_places(outcomes: ArmOutcomes, places: Collection[Place]) -> ArmOutcomes:
    def place_of(place: Place) -> Place | None:
        return None if place in places else place

    return move_units(outcomes, place_of)


@dataclass(slots=True)
class _Column:
    """The scores of one metric in one arm."""

    positions: list[int] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    is_bool: list[int] = field(default_factory=list)

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
