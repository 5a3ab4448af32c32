"""The plugin of --crucible-estimate: estimates each experiment instead of running it, and prints the sum at the end."""

from __future__ import annotations

from functools import cached_property

import pytest

from pytest_crucible.backends.not_sent import UnsentRequest
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.estimating import Estimator
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.resources import Resources


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
            self._estimator(item, sweep.choosing)
        self._estimator(item, experiment)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Show the estimate; the session fails where a budget may be too little."""
        if self._messages.errors or not self._collection.plans():
            return
        lines, may_be_too_little = self._estimator.lines(self._resources.shared.spending)
        self._messages.lines += lines
        sweep = self._collection.sweep
        if sweep is not None and sweep.record.drop != "none":
            self._messages.lines.append(
                f"  {sweep.record.family}: at most so much, since members that are dropped answer less"
            )
        if sweep is not None and sweep.record.trials:
            self._messages.lines.append(
                f"  {sweep.record.family}: only the first {len(sweep.record.members)} of {sweep.record.trials} trials are known, "
                "and the others are not in these numbers"
            )
        if may_be_too_little:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
