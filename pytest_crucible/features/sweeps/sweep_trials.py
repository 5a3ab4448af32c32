"""Runs the trials of a search, one after the other. The settings of each are stored before it is trained or sent requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.members import member_values
from pytest_crucible.features.sweeps.families import SweptFamily, family_of
from pytest_crucible.features.sweeps.grid import propose
from pytest_crucible.features.sweeps.sweep_looks import SweepLooks
from pytest_crucible.features.sweeps.sweep_plans import PlannedSweep, with_trial
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.store.decisions import add_decision, load_decisions
from pytest_crucible.store.experiments import StoredExperiment, find_experiment
from pytest_crucible.store.runs import RunStore

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
        self.run_choosing(self.sweep.choosing, SweepLooks(self.sweep.record, lambda _, kept: kept), answered)

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
