"""The plugin of --crucible-estimate: estimates each experiment instead of running it, and prints the sum at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.backends.not_sent import UnsentRequest
from pytest_crucible.features.stages.cost import predict_total
from pytest_crucible.features.stages.estimate_lines import forecast_text
from pytest_crucible.features.stages.estimating import Estimator
from pytest_crucible.session.experiment import Experiment, ExperimentEstimate, SessionEstimate
from pytest_crucible.stats.number_format import seconds

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession


class EstimatePlugin:
    """A pytest plugin, registered when a session estimates."""

    def __init__(self, session: CrucibleSession) -> None:
        self._config = session.config
        self._settings = session.settings
        self._collection = session.collection
        self._resources = session.resources
        self._messages = session.messages

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator(self._settings, self._resources.store, self._resources.loop)

    def add_request(self, unsent: UnsentRequest) -> None:
        """Receive a request that would be sent."""
        self._estimator.add_request(unsent)

    def estimate(self, item: pytest.Function, experiment: Experiment) -> None:
        """Estimate an experiment, after those that serve it."""
        estimate = ExperimentEstimate(item, experiment)
        self._config.hook.pytest_crucible_estimate(estimate=estimate)
        for helper in estimate.helpers:
            self._estimator(item, helper.experiment, helper)
        self._estimator(item, estimate.experiment)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Show the estimate; the session fails where a budget may be too little."""
        if self._messages.errors or not self._collection.plans():
            return
        lines, may_be_too_little = self._estimator.lines(self._resources.shared.spending)
        whole = SessionEstimate(self._collection.opened_arms, self._settings, _forecast_seconds)
        self._config.hook.pytest_crucible_estimate_session(estimate=whole, config=self._config)
        self._messages.lines += [*lines, *whole.lines, *self._early_ends()]
        if may_be_too_little:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _early_ends(self) -> Iterator[str]:
        """Yield the reasons why the run may cost less than the estimates, whose intervals include that."""
        if self._settings.option("stop"):
            yield "  at most so much, since --crucible-stop ends an experiment when its verdicts are settled"
        if self._settings.option("stages"):
            yield "  at most so much, since the session may end after a stage"


def _forecast_seconds(earlier: Sequence[float], count: int) -> str:
    return forecast_text(predict_total(earlier, count), seconds)
