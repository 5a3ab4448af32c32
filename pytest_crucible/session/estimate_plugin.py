"""The plugin of --crucible-estimate: estimates each experiment instead of running it, and prints the sum at the end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pytest

from pytest_crucible.adapters.context import ADAPTERS, files_folder
from pytest_crucible.backends.not_sent import UnsentRequest
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.estimating import Estimator
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.resumed_sweep import ResumedSweep, resume_sweep
from pytest_crucible.session.sweep_plans import with_winner
from pytest_crucible.session.training_estimate import training_lines


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
        self._resumed: ResumedSweep | None = None

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator(self._settings, self._resources.store, self._resources.loop)

    def add_request(self, unsent: UnsentRequest) -> None:
        """Receive a request that would be sent."""
        self._estimator.add_request(unsent)

    def estimate(self, item: pytest.Function, experiment: Experiment) -> None:
        """Estimate an experiment, with the choice of the winner if the experiment makes it."""
        resumed = self._resumed
        if resumed is not None and item.nodeid == resumed.sweep.record.test:
            self._estimator(item, resumed.sweep.choosing, resumed.further_trials, resumed.unsent)
        if resumed is not None and resumed.winner is not None:
            experiment = with_winner(experiment, resumed.winner)
        self._estimator(item, experiment)

    def pytest_collection_finish(self) -> None:
        """Read how far the sweep is that would be resumed."""
        sweep = self._collection.sweep
        if sweep is None:
            return
        try:
            resumes = self._settings.resume
            self._resumed = resume_sweep(sweep, self._resources.store) if resumes else ResumedSweep(sweep)
        except CrucibleError as error:
            raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Show the estimate; the session fails where a budget may be too little."""
        if self._messages.errors or not self._collection.plans():
            return
        lines, may_be_too_little = self._estimator.lines(self._resources.shared.spending)
        self._messages.lines += lines
        arms, further = self._collection.opened_arms, 0
        if self._resumed is not None:
            arms, further = (self._resumed.sweep.family, *arms[1:]), self._resumed.further_trials
        folder = files_folder(session.config.rootpath, self._settings.store) / ADAPTERS
        self._messages.lines += training_lines(arms, further, folder)
        self._messages.lines += self._early_ends()
        if may_be_too_little:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _early_ends(self) -> Iterator[str]:
        """Yield the reasons why the run may cost less than the estimates, whose intervals include that."""
        resumed = self._resumed
        if resumed is not None and resumed.winner is None and resumed.sweep.record.looks:
            yield f"  {resumed.sweep.record.family}: at most so much, since members that are dropped answer less"
        if self._settings.stop:
            yield "  at most so much, since --crucible-stop ends an experiment when its verdicts are settled"
        if self._settings.stages is not None:
            yield "  at most so much, since the session may end after a stage"
