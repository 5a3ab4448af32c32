"""Enters an experiment into the run store, with its arms and the stored replies that they may use."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.records import Plan
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.stored_replies import arm_fingerprint, find_stored_replies, stored_units
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.reused_outcomes import copy_outcomes
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True)
class EnteredExperiment:
    """An experiment in the run store, with its stored replies."""

    key: int
    arms: list[list[int]]
    """The store's keys of the arms, by arm and prompt."""
    done: list[set[tuple[int, int]]]
    """By arm, the (position, place) of the units with stored replies."""


@dataclass(frozen=True)
class ExperimentEntry:
    """Enters the experiments of one run."""

    store: RunStore
    settings: Settings
    run: str

    def enter(self, experiment: Experiment, *, is_first: bool = True, answered: int = 0) -> EnteredExperiment:
        """Enter an experiment, or a later run of it; the first `answered` arms have had their requests in this session."""
        if not is_first:
            return self._enter_again(experiment)
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples, experiment.variants)
        arms, done = [], []
        for number, draws in enumerate(experiment.draws):
            keys = self._add_arms(key, plan, number)
            done.append(
                {
                    (position, draws.place(variant, repeat))
                    for variant, target in enumerate(keys)
                    for position, repeat in self._reuse_stored(plan, number, variant, target)
                }
            )
            arms.append(keys)
        # Not copied from another run: this one has their rows already.
        if answered:
            done[:answered] = stored_units(load_experiment(self.store, key))[:answered]
        return EnteredExperiment(key, arms, done)

    def _enter_again(self, experiment: Experiment) -> EnteredExperiment:
        """Return the keys of an experiment that has begun, and the units that its earlier runs answered or lost."""
        plan = experiment.plan
        key = self.store.add_experiment(self.run, plan, experiment.dataset.samples, experiment.variants)
        arms = [self._add_arms(key, plan, number) for number in range(len(plan.arms))]
        return EnteredExperiment(key, arms, stored_units(load_experiment(self.store, key)))

    def _add_arms(self, experiment: int, plan: Plan, number: int) -> list[int]:
        """Return the keys of an arm, one for each variant."""
        return [self._add_arm(experiment, plan, number, variant) for variant in plan.variant_numbers]

    def _add_arm(self, experiment: int, plan: Plan, number: int, variant: int) -> int:
        fingerprint = arm_fingerprint(plan, number, variant)
        # Variants are numbered after all arms, so that an arm's own number stays its place in the plan.
        place = number + len(plan.arms) * variant
        original = self.store.add_arm(experiment, number, plan.arms[number].name, arm_fingerprint(plan, number))
        if not variant:
            return original
        return self.store.add_arm(
            experiment, place, plan.arms[number].name, fingerprint, variant=variant, original=original
        )

    def _reuse_stored(self, plan: Plan, number: int, variant: int, target: int) -> set[tuple[int, int]]:
        """Copy the stored replies that an arm may use."""
        source = find_stored_replies(self.store, self.settings, plan, number, variant, run=self.run)
        if source is None:
            return set()
        draws, tried = plan.draws(number), self.settings.resume
        return copy_outcomes(self.store, source[0], target, source_run=source[1], draws=draws, tried=tried)
