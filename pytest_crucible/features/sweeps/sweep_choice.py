"""The looks of a sweep: after an eighth, a quarter and half of the choosing half, members that are proven worse go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.members import member_values
from pytest_crucible.features.sweeps.families import SweptFamily, family_of
from pytest_crucible.features.sweeps.grid import propose, sweep_changes
from pytest_crucible.features.sweeps.records import SWEEP_OF, Sweep
from pytest_crucible.features.sweeps.rounds import choose_winner, members_that_go_on
from pytest_crucible.features.sweeps.sweep_plans import PlannedSweep, with_sweep, with_trial, with_winner
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmOutcomes
from pytest_crucible.records.errors import CrucibleError, SpecError, UnsuitableMetric, closest_name
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.store.decisions import add_decision, copy_decisions, latest_plan, load_decisions
from pytest_crucible.store.experiments import StoredExperiment, find_experiment
from pytest_crucible.store.runs import RunStore


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
        remaining = arms
        # Members are dropped by pairs, which conditional means do not have.
        if compared is not None and not compared.is_conditional:
            columns = members_that_go_on(
                compared.scores, compared.clusters, drop=self.sweep.drop, looks=len(self.sweep.looks)
            )
            remaining = [arms[column] for column in columns]
        stored = self.decide(self._looks, [names[arm] for arm in remaining])
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


RunChoosing = Callable[[Experiment, SweepLooks, int], None]
"""Runs the choosing half; the number is that of the members that have had their requests."""


@dataclass
class SearchTrials:
    """The trials of one search in one run."""

    sweep: PlannedSweep
    run: str
    store: RunStore
    run_choosing: RunChoosing

    def run_all(self) -> PlannedSweep:
        """Let all trials answer the choosing half; return the sweep with them as its members."""
        for number, member in enumerate(self.sweep.record.members):
            self._decide(number, dict(member.settings))
        self._ask(answered=0)
        for number in range(len(self.sweep.record.members), self.sweep.record.trials):
            stored = load_decisions(self.store, self.run, self.sweep.record.trials_subject)
            settings = stored[number]["settings"] if number in stored else self._propose(number)
            settings = self._decide(number, settings)
            # Nothing new is left to try.
            if settings is None or not self._is_whole():
                break
            self.sweep = with_trial(self.sweep, settings, open_trial(self.sweep.family, settings))
            self.store.replace_plan(self.run, self.sweep.choosing.plan)
            self._ask(answered=number)
        return self.sweep

    def _ask(self, *, answered: int) -> None:
        self.run_choosing(self.sweep.choosing, SweepLooks(self.sweep.record, lambda _, remaining: remaining), answered)

    def _decide(self, number: int, settings: dict[str, Any] | None) -> dict[str, Any] | None:
        body = add_decision(self.store, self.run, self.sweep.record.trials_subject, number, {"settings": settings})
        return body["settings"]  # type: ignore[no-any-return]

    def _is_whole(self) -> bool:
        """Return whether the trials until now have ended; not where a budget or an interruption has cut them short."""
        stored = find_experiment(self.store, self.run, self.sweep.record.nodeid)
        return stored is not None and stored.finished

    def _propose(self, number: int) -> dict[str, Any] | None:
        record, family = self.sweep.record, family_of(self.sweep.family)
        points = [member.settings for member in record.members]
        scored = [(point, score) for point, score in zip(points, self._means(), strict=True) if score is not None]
        return propose(family, scored, seed=record.seed, number=number, tried=points)

    def _means(self) -> list[float | None]:
        """Return each trial's mean score on the choosing half, higher is better; None without one."""
        record = self.sweep.record
        stored = find_experiment(self.store, self.run, record.nodeid)
        assert stored is not None
        arms = range(len(record.members))
        compared = member_values(stored_inputs(stored), record.by, arms, range(len(stored.groups)))
        if compared is None:
            return [None for _ in arms]
        return [None if np.isnan(column).all() else float(np.nanmean(column)) for column in compared.scores.T]


def with_stored_trials(sweep: PlannedSweep, store: RunStore, run: str) -> PlannedSweep:
    """Return the sweep with the trials that another worker has run."""
    stored = load_decisions(store, run, sweep.record.trials_subject)
    for number in range(len(sweep.record.members), len(stored)):
        settings = stored[number]["settings"]
        if settings is not None:
            sweep = with_trial(sweep, settings, open_trial(sweep.family, settings))
    return sweep


def open_trial(family: OpenedArm, settings: dict[str, Any]) -> OpenedArm:
    swept: SweptFamily = family.of_feature
    assert swept.open_trial is not None
    return swept.open_trial(settings)


def stored_inputs(stored: StoredExperiment) -> AnalysisInputs:
    """Return the stored replies of the choosing half for the analysis."""
    return AnalysisInputs(
        plan=stored.plan,
        answers=stored.arms,
        groups=stored.groups,
        finished=stored.finished,
        known_kinds=stored.known_kinds,
    )


@dataclass
class SweepChoice:
    """The choice of one sweep in one run."""

    sweep: PlannedSweep
    run: str
    store: RunStore

    @property
    def record(self) -> Sweep:
        return self.sweep.record

    def begin(self, *, resume: bool) -> None:
        """Enter the sweep into the run; with `resume`, with the decisions of the latest earlier run.

        Raises SpecError if that run swept something else.
        """
        earlier = latest_plan(self.store, self.record.nodeid, before=self.run) if resume else None
        before = None if earlier is None else SWEEP_OF.of(earlier[1])
        if earlier is not None and before is not None:
            check_same_sweep(earlier[0], before, self.record)
        self.store.enter_plan(self.run, self.sweep.choosing.plan)
        if earlier is not None:
            for subject in (self.record.looks_subject, self.record.trials_subject, self.record.winner_subject):
                copy_decisions(self.store, earlier[0], self.run, subject)

    def choose(self, run_choosing: RunChoosing, flush: Callable[[], None]) -> OpenedArm:
        """Let the members compete, and return the winner. Raises CrucibleError if no member has a score."""

        def decide(look: int, remaining: list[str]) -> list[str]:
            # A decision must not be stored before the replies on which it is based.
            flush()
            body = {"samples": self.record.looks[look], "kept": remaining}
            stored = add_decision(self.store, self.run, self.record.looks_subject, look, body)
            return list(stored["kept"])

        if self.record.trials:
            self.sweep = SearchTrials(self.sweep, self.run, self.store, run_choosing).run_all()
        else:
            run_choosing(self.sweep.choosing, SweepLooks(self.record, decide), 0)
        stored = find_experiment(self.store, self.run, self.record.nodeid)
        if stored is None or not stored.finished:
            raise CrucibleError(
                f"the sweep of {self.record.family!r} was cut short before it had a winner: --crucible-resume continues it"
            )
        body = self._pick(stored)
        return self._find_member(add_decision(self.store, self.run, self.record.winner_subject, 0, body)["winner"])

    def winner(self) -> OpenedArm | None:
        """Return the winner; None until it is stored."""
        stored = load_decisions(self.store, self.run, self.record.winner_subject)
        if not stored:
            return None
        if self.record.trials:
            self.sweep = with_stored_trials(self.sweep, self.store, self.run)
        return self._find_member(stored[0]["winner"])

    def apply(self, experiment: Experiment, winner: OpenedArm) -> Experiment:
        """Return the experiment with the winner instead of the family, and update the run store."""
        changed = with_winner(with_sweep(experiment, self.record), winner)
        self.store.replace_plan(self.run, changed.plan)
        return changed

    def _pick(self, stored: StoredExperiment) -> dict[str, Any]:
        """Return the decision: the best of the members that no look has dropped."""
        looks = load_decisions(self.store, self.run, self.record.looks_subject)
        names = [member.name for member in self.record.members]
        live = looks[max(looks)]["kept"] if looks else names
        compared = member_values(
            stored_inputs(stored), self.record.by, map(names.index, live), range(len(stored.groups))
        )
        if compared is None:
            raise UnsuitableMetric(unscored_text(self.record, stored.arms))
        chosen = choose_winner(compared.scores, is_conditional=compared.is_conditional)
        if chosen is None:
            raise CrucibleError(
                f"the sweep of {self.record.family!r} has no winner: no sample was scored by {self.record.by!r} in all of "
                f"{len(live)} members"
            )
        return {"winner": live[chosen], "members": live}

    def _find_member(self, name: str) -> OpenedArm:
        return next(opened for opened in self.sweep.family.competitors if opened.arm.name == name)


def check_same_sweep(run: str, before: Sweep, now: Sweep) -> None:
    """Raise SpecError if the run to resume had another sweep."""
    change = next(sweep_changes(before, now), None)
    if change is not None:
        raise SpecError(f"run {run[:4]} {change}, or run without --crucible-resume")
