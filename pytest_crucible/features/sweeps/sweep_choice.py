"""Chooses the winner of a sweep, in the test that chooses; the other experiments of the session wait for it.

Every decision is stored before it takes effect: which members go on after a look, and who has won.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.analyse.members import member_values
from pytest_crucible.features.sweeps.grid import sweep_changes
from pytest_crucible.features.sweeps.records import SWEEP_OF, Sweep
from pytest_crucible.features.sweeps.rounds import choose_winner
from pytest_crucible.features.sweeps.sweep_looks import SweepLooks, unscored_text
from pytest_crucible.features.sweeps.sweep_plans import PlannedSweep, with_sweep, with_winner
from pytest_crucible.features.sweeps.sweep_trials import RunChoosing, SearchTrials, stored_inputs, with_stored_trials
from pytest_crucible.records.errors import CrucibleError, SpecError, UnsuitableMetric
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.store.decisions import add_decision, copy_decisions, latest_plan, load_decisions
from pytest_crucible.store.experiments import StoredExperiment, find_experiment
from pytest_crucible.store.runs import RunStore


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

        def decide(look: int, kept: list[str]) -> list[str]:
            # A decision must not be stored before the replies on which it is based.
            flush()
            body = {"samples": self.record.looks[look], "kept": kept}
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
