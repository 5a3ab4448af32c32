"""The plugin of --crucible-estimate: estimates each experiment instead of running it, and prints the sum at the end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pytest

from pytest_crucible.adapters.context import ADAPTERS, files_folder
from pytest_crucible.backends.not_sent import UnsentRequest
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.estimating import Estimator
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.sweep_plans import PlannedSweep
from pytest_crucible.session.training_estimate import training_lines
from pytest_crucible.sweeps.search import most_trials


class EstimatePlugin:
    """A pytest plugin, registered when a session estimates."""

    def __init__(
        self,
        settings: Settings,
        collection: ExperimentCollection,
        resources: Resources,
        messages: Messages,
    ) -> None:
        self._settings = settings
        self._collection = collection
        self._resources = resources
        self._messages = messages

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator(self._settings, self._resources.store, self._resources.loop)

    def add_request(self, unsent: UnsentRequest) -> None:
        """Receive a request that would be sent."""
        self._estimator.add_request(unsent)

    def estimate(self, item: pytest.Function, experiment: Experiment) -> None:
        """Estimate an experiment, and the choice of the winner where it is the one that chooses."""
        sweep = self._collection.sweep
        if sweep is not None and item.nodeid == sweep.record.test:
            self._estimator(item, sweep.choosing, _count_further(sweep))
        self._estimator(item, experiment)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Show the estimate; the session fails where a budget may be too little."""
        if self._messages.errors or not self._collection.plans():
            return
        lines, may_be_too_little = self._estimator.lines(self._resources.shared.spending)
        self._messages.lines += lines
        sweep = self._collection.sweep
        further = 0 if sweep is None else _count_further(sweep)
        folder = files_folder(session.config.rootpath, self._settings.store) / ADAPTERS
        self._messages.lines += training_lines(self._collection.opened_arms, further, folder)
        self._messages.lines += self._early_ends()
        if may_be_too_little:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _early_ends(self) -> Iterator[str]:
        """Yield why the run may take less than the numbers say, with intervals that reach down to it."""
        sweep = self._collection.sweep
        if sweep is not None and sweep.record.looks:
            yield f"  {sweep.record.family}: at most so much, since members that are dropped answer less"
        if self._settings.stop:
            yield "  at most so much, since --crucible-stop ends an experiment when its verdicts are settled"
        if self._settings.stages is not None:
            yield "  at most so much, since the session may end after a stage"


def _count_further(sweep: PlannedSweep) -> int:
    """Return the number of a search's trials that are not proposed yet; 0 for a grid."""
    family = sweep.family.family
    return 0 if family is None or not family.trials else most_trials(family) - len(sweep.record.members)
