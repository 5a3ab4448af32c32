"""The state in which --crucible-resume finds a sweep: its trials until now, the members that were dropped, and its winner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.sweeps.families import family_of
from pytest_crucible.features.sweeps.grid import most_trials
from pytest_crucible.features.sweeps.records import SWEEP_OF
from pytest_crucible.features.sweeps.sweep_choice import SweepChoice, check_same_sweep
from pytest_crucible.features.sweeps.sweep_plans import PlannedSweep
from pytest_crucible.features.sweeps.sweep_trials import with_stored_trials
from pytest_crucible.plan.arms import look_order
from pytest_crucible.store.decisions import latest_plan, load_decisions
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True)
class ResumedSweep:
    """A sweep with the decisions of an earlier run, if there was one."""

    sweep: PlannedSweep
    winner: OpenedArm | None = None
    unsent: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Member -> the positions of the choosing samples that it is not sent: those after its last look."""

    @property
    def further_trials(self) -> int:
        """The number of a search's trials that are not proposed yet; 0 for a grid."""
        family = family_of(self.sweep.family)
        if not family.trials or self.winner is not None:
            return 0
        return most_trials(family) - len(self.sweep.record.members)


def resume_sweep(sweep: PlannedSweep, store: RunStore) -> ResumedSweep:
    """Return the sweep as the latest run left it. Raises SpecError if that run swept something else."""
    earlier = latest_plan(store, sweep.record.nodeid, before="")
    before = None if earlier is None else SWEEP_OF.of(earlier[1])
    if earlier is None or before is None:
        return ResumedSweep(sweep)
    run = earlier[0]
    check_same_sweep(run, before, sweep.record)
    sweep = with_stored_trials(sweep, store, run)
    looks = load_decisions(store, run, sweep.record.looks_subject)
    return ResumedSweep(sweep, SweepChoice(sweep, run, store).winner(), _unsent(sweep, list(looks.values())))


def _unsent(sweep: PlannedSweep, looks: list[dict[str, object]]) -> dict[str, frozenset[int]]:
    """Return the positions after the look that was each member's last one; `looks` are the stored decisions, in order."""
    samples = sweep.choosing.dataset.samples
    order = look_order([sample.id for sample in samples], [sample.group for sample in samples])
    unsent: dict[str, frozenset[int]] = {}
    for look in looks:
        kept, length = look["kept"], look["samples"]
        assert isinstance(kept, list)
        assert isinstance(length, int)
        # The last member has won, and the choosing half ends.
        ended = sweep.record.confirm and len(kept) == 1
        for member in sweep.record.members:
            if member.name not in unsent and (ended or member.name not in kept):
                unsent[member.name] = frozenset(order[length:])
    return unsent
