"""The sweep of one session: planned with its experiments, entered into the run, and decided before the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_crucible.features.sweeps.resumed_sweep import ResumedSweep, resume_sweep
from pytest_crucible.features.sweeps.sweep_checks import check_confirmed, check_whole_experiments
from pytest_crucible.features.sweeps.sweep_choice import SweepChoice
from pytest_crucible.features.sweeps.sweep_items import SweepItems
from pytest_crucible.features.sweeps.sweep_plans import PlannedSweep, plan_sweep, with_sweep, with_trained, with_winner
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.experiment import ExperimentEstimate, ExperimentRun, HelperEstimate, SessionEstimate
from pytest_crucible.session.items import collected_nodeid

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession


class SessionSweep:
    """Plans and runs the sweep of a session."""

    def __init__(self, collection: ExperimentCollection) -> None:
        self._collection = collection
        self.planned: PlannedSweep | None = None
        """None if the session has no experiment that could choose."""
        self._session: CrucibleSession | None = None
        self._items: SweepItems | None = None
        self._resumed: ResumedSweep | None = None

    def plan(self) -> None:
        """Plan the sweep; the experiments keep the samples that do not choose. Raises SpecError."""
        collection, family = self._collection, self._collection.opened_arms[0]
        check_whole_experiments(family, collection.settings, has_joined_tests=bool(collection.joined))
        if not collection.experiments:
            return
        self.planned, changed = plan_sweep(family, collection.experiments, collection.settings.seed)
        check_confirmed(self.planned.record, collection.settings)
        collection.experiments |= changed
        for nodeid in changed:
            with collection.gather_errors(nodeid):
                collection.resolve_stored_arms(nodeid)
        collection.resources.shared.spending.share(self.planned.record.test, self.planned.record.nodeid)

    def replace_trained(self) -> None:
        """Replace the members by those that were trained since."""
        collection = self._collection
        assert self.planned is not None
        if collection.opened_arms[0] is self.planned.family:
            return
        self.planned = with_trained(self.planned, collection.opened_arms[0])
        collection.experiments = {
            nodeid: with_sweep(experiment, self.planned.record) for nodeid, experiment in collection.experiments.items()
        }

    def choice(self, run: str) -> SweepChoice:
        """Return the choice of the sweep in a run."""
        assert self.planned is not None
        return SweepChoice(self.planned, run, self._collection.resources.store)

    def put_first(self, items: list[pytest.Item]) -> None:
        """Move the test that chooses before all others."""
        assert self.planned is not None
        test = self.planned.record.test
        items.sort(key=lambda item: item.nodeid != test)

    def begin(self, session: CrucibleSession) -> None:
        """Register the tests of the sweep: one chooses, and the others wait."""
        worker = getattr(session.config, "workerinput", {}).get("workerid")
        check = session.interruptions.check
        self._session = session
        self._items = SweepItems(self.choice(session.run), worker=worker, check_interrupt=check)
        session.config.pluginmanager.register(self._items, "crucible-sweep")

    def read_resumed(self) -> None:
        """Read how far the sweep is that an estimate would resume. Raises pytest.UsageError if it cannot be resumed."""
        collection = self._collection
        assert self.planned is not None
        if collection.resources.sends:
            return
        try:
            resumes = collection.settings.resume
            store = collection.resources.store if resumes else None
            self._resumed = ResumedSweep(self.planned) if store is None else resume_sweep(self.planned, store)
        except CrucibleError as error:
            raise pytest.UsageError(str(error)) from None

    def add_estimate(self, estimate: ExperimentEstimate) -> None:
        """Estimate the choice of the winner with the experiment that makes it."""
        resumed = self._resumed
        if resumed is None:
            return
        if estimate.item.nodeid == resumed.sweep.record.test:
            choosing, record = resumed.sweep.choosing, resumed.sweep.record
            estimate.helpers.append(
                HelperEstimate(
                    choosing,
                    family=record.family,
                    further=resumed.further_trials,
                    least_share=record.looks[0] / len(choosing.dataset.samples) if record.looks else 1.0,
                    unsent=resumed.unsent,
                )
            )
        if resumed.winner is not None:
            estimate.experiment = with_winner(estimate.experiment, resumed.winner)

    def complete_estimate(self, estimate: SessionEstimate) -> None:
        """Name the arms that may have to be trained, and why the members may cost less."""
        resumed = self._resumed
        if resumed is None:
            return
        estimate.arms = (resumed.sweep.family, *estimate.arms[1:])
        estimate.further = resumed.further_trials
        if resumed.winner is None and resumed.sweep.record.looks:
            family = resumed.sweep.record.family
            estimate.lines.append(f"  {family}: at most so much, since members that are dropped answer less")

    def set_winner(self, run: ExperimentRun) -> None:
        """Make the winner the candidate of a run. Skips the test if there will be none."""
        session = self._session
        if session is None or self._items is None:
            return
        run.experiment = self._collection.experiments[collected_nodeid(run.item)] = self._items.with_winner(
            run.item,
            run.experiment,
            lambda choosing, rule, answered: session.items.ask(
                ExperimentRun(run.item, choosing, rule=rule, answered=answered, show=run.show)
            ),
            session.resources.writer.flush,
        )
