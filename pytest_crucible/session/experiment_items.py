"""The items that are experiments, while pytest runs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pytest_crucible.backends.limiting.history import explain_load
from pytest_crucible.metrics.models.scorers import scorer_reports
from pytest_crucible.records.errors import CrucibleError, StoreError, UnsuitableMetric
from pytest_crucible.records.settings import Settings
from pytest_crucible.sample.engine import Deadline
from pytest_crucible.session.budget import emit_budgets
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.experiment_run import ExperimentRun
from pytest_crucible.session.interruptions import Interruptions
from pytest_crucible.session.markers import is_experiment
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.progress import progress_display
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.repeated_items import collected_nodeid
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.run_experiment import ExperimentRunner
from pytest_crucible.session.single_sample import run_single_sample


class ExperimentItems:
    """Runs an item as an experiment, or one sample of it alone."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        run: str,
        *,
        collection: ExperimentCollection,
        resources: Resources,
        publisher: EventPublisher,
        messages: Messages,
        interruptions: Interruptions,
        deadline: Deadline | None,
    ) -> None:
        self._config = config
        self._settings = settings
        self._run = run
        self._collection = collection
        self._resources = resources
        self._publisher = publisher
        self._messages = messages
        self._interruptions = interruptions
        self._deadline = deadline
        self._hide = key_redactor(config)

    def run_item(self, item: pytest.Function) -> bool | None:
        """Run a marked function, and return True; None for any other function, which pytest runs."""
        if not is_experiment(item):
            return None
        nodeid = collected_nodeid(item)
        experiment = self._collection.experiments.get(nodeid)
        self._collection.failures.raise_for(nodeid)
        # A worker of xdist cannot refuse to begin: it skips its items, and their reports have the reason.
        if experiment is None or self._messages.errors:
            pytest.skip(self.skip_reason())
        if self._settings.sample is not None:
            self._run_single_sample(item, experiment, self._settings.sample)
            return True
        run = ExperimentRun(item, experiment)
        if not self._config.hook.pytest_crucible_run(run=run):
            self._run_and_report(run)
        return True

    def skip_reason(self) -> str:
        """Return why an experiment or the sample of a joined test is not run."""
        return "not run: " + self._hide(next(iter(self._messages.errors), "this test was not planned as an experiment"))

    def _run_and_report(self, run: ExperimentRun) -> None:
        """Run an experiment. What is known of an error only now goes to the session's messages."""
        item = run.item
        try:
            shared = self._resources.shared
            shared.limiters.restart_load()
            run.show = progress_display(self._config, item.nodeid, shared)
            with self._interruptions.defer_signals():
                for begin in run.before:
                    begin(run)
                self.ask(run)
                for end in run.after:
                    end()
        except CrucibleError as error:
            if isinstance(error, StoreError):
                self._messages.add_failures([error])
            # Known only from the first scores, but an error of the suite like those before the first request.
            if isinstance(error, UnsuitableMetric):
                self._messages.problems.append(str(error))
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        finally:
            # Also after an error: the money is spent.
            emit_budgets(self._publisher.emit, self._resources.shared.spending, collected_nodeid(item))
            self._messages.lines += scorer_reports()
            if sentence := explain_load(self._resources.shared.limiters.load()):
                self._messages.lines.append(f"{item.name}: {sentence}")

    def ask(self, run: ExperimentRun) -> None:
        """Request every reply of a run that is not stored yet. Raises CrucibleError and KeyboardInterrupt."""
        resources = self._resources
        runner = ExperimentRunner(
            self._run,
            self._settings,
            resources.store,
            resources.writer,
            resources.loop,
            observation_hook(self._config),
            cache=resources.shared.cache,
            deadline=self._deadline,
            spending=resources.shared.spending,
            emit=self._publisher.sample_emit,
            check_interrupt=self._interruptions.check,
        )
        runner(run)

    def _run_single_sample(self, item: pytest.Function, experiment: Experiment, sample_id: str) -> None:
        position = experiment.position(sample_id)
        if position is None:
            pytest.skip(f"no sample {sample_id!r} here")
        try:
            lines = run_single_sample(item, experiment, position, self._resources.loop)
        # The reply cache is in the store.
        except StoreError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        self._messages.lines += map(self._hide.redact_cut, lines)


def observation_hook(config: pytest.Config) -> Callable[..., None] | None:
    """Return the hook to call with each observation; None if no plugin implements it."""
    hook = config.hook.pytest_crucible_observed
    return partial(hook, config=config) if hook.get_hookimpls() else None
